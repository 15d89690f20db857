"""What the codes of predictors on pages of causes stand for."""

from __future__ import annotations

import re
from typing import Final

HEADING: Final = "How gains are foretold"
PREDICTORS: Final = {
    "P1": "loading at the rate that measured batches, workers and cores allow, beside the step",
    "P2": "measured times of batches, replayed through a queue of another depth",
    "P3": "recorded steps, replayed without a wait for the device",
    "P4": "the step as long as its launches or its device's work, whichever is longer",
    "P5": "recorded steps, replayed with kernels that take other times, or none",
    "P6": "a step's time as a fixed part and one that grows with the batch",
    "P7": "communication, less what the rest of the step can hide",
    "P8": "every rank with the work, or the speed, of the others",
    "P9": "speed-up = 1 / (1 - f (1 - r)): f the share of time in pauses, r what is left of them",
    "P10": "what a fix costs once, against what it saves in the steps that are left",
    "P11": "the computing share of the step, at the rated clock in place of the one that was read",
}
"""in a sentence each; the sources of each formula stand where it is computed"""
_CODE = re.compile(r"\bP(?:1[01]|[1-9])\b")


def predictor_legend(text: str) -> list[str]:
    """A line for each predictor that a text names by its code, in their order."""
    named = {code for code in _CODE.findall(text) if code in PREDICTORS}
    return [f"- {code}: {said}" for code, said in PREDICTORS.items() if code in named]
