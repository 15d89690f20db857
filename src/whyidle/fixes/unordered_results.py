"""Hand results of a pipeline on as they come."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("ordered-results", consent="rounding")
def unordered_results(_: Proof) -> Proposal | None:
    """Let pipelines of tf.data give elements in the order in which they are made. It varies from
    run to run, as another seed of a shuffle would."""
    return Proposal(
        edits=(Edit(knob="tfdata.deterministic", value=False, was=True),),
        risk="two runs with the same seed train on other batches",
    )
