"""Make the training step one traced function."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts


@fix("uncompiled-step", consent="rounding")
def compile_step(proof: Proof) -> Proposal:
    """Trace forward pass, gradients and update together. Only the author knows which function to
    compile, and whether its Python code does more in each step than to compute its result."""
    facts = proof.get_facts(HostFacts)
    if beside := facts.beside:
        how = f"call these operators{beside} inside the compiled function: one jax.jit around the "
        how += "gradient, the optimizer's update and optax.apply_updates"
        if facts.single:
            how = "compile what is called for each element and call it once per batch, "
            how += "jax.jit(jax.vmap(function)); slice and stack arrays in NumPy"
        risk = "Python in the step runs once per trace only"
        return Proposal(how, risk=risk, automatic=False)
    return Proposal(
        "put the whole step into one traced function, and make variables and the optimizer outside "
        "of it",
        edits=(Edit(knob="step.compile", value=True, was=False),),
        risk="Python in the step (prints, lists, random numbers of NumPy) runs once per trace only",
    )
