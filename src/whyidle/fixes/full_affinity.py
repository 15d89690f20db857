"""Give loader workers the cores back."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("narrowed-cpu-affinity", consent="none")
def full_affinity(proof: Proof) -> Proposal:
    """Workers may use all cores that the command was given when it started; the training process
    stays where it was put. What a ``worker_init_fn`` of the script binds stays bound."""
    variables = proof.get_facts(InputFacts).variables or ()
    unset = f"unset {' and '.join(variables)}, or " if variables else ""
    return Proposal(
        summary=f"{unset}os.sched_setaffinity(0, CORES) in worker_init_fn, with all the cores that "
        "the command was given",
        edits=(Edit(knob="loader.full_affinity", value=True, was=False),),
        risk="none known: workers compute the same on any core",
    )
