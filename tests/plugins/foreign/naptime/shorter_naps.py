"""Sleep a tenth as long."""

from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("long-naps", consent="none")
def shorter_naps(proof):
    """Declines for nobody: whoever sleeps can sleep less."""
    return Proposal(summary="", edits=(Edit(knob="naps.length_ratio", value=0.1, was=1.0),))
