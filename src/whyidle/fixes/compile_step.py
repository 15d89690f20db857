"""Make the training step one traced function."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("uncompiled-step", consent="rounding")
def compile_step(_: Proof) -> Proposal:
    """Trace forward pass, gradients and update together. At run time it declines where the function
    that takes the gradients is no global function of the script, takes them in a loop, cannot be
    traced, or changes modules of ``flax.nnx``."""
    return Proposal(
        "put the whole step into one traced function, and make variables and the optimizer outside "
        "of it",
        edits=(Edit(knob="step.compile", value=True, was=False),),
        risk="Python in the step (prints, lists, random numbers of NumPy) runs once per trace only",
    )
