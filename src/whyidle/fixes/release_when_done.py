"""Give the device back when nothing runs on it."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("interactive-or-unreleased", consent="none")
def release_when_done(_: Proof) -> Proposal:
    """End the process, or take interactive work elsewhere. Advice: whyidle ends nobody's work."""
    return Proposal(
        summary="end the process after the last save; shut idle notebook kernels down; explore and "
        "debug on a machine without the GPU",
        risk="none, once everything is saved",
        automatic=False,
        faster=False,
    )
