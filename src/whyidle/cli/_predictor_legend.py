"""Explains the codes of predictors on the pages of causes."""

from __future__ import annotations

import re
from typing import Final

HEADING: Final = "How gains are predicted"
PREDICTORS: Final = {
    "P1": "loading at the rate that the measured batches, workers and cores allow, concurrently "
    "with the step",
    "P2": "measured batch times, replayed through a queue of another depth",
    "P3": "recorded steps, replayed without a wait for the device",
    "P4": "a step as long as its launches or its device work, whichever is longer",
    "P5": "recorded steps, replayed with faster kernels or without them",
    "P6": "step time as a fixed part plus a part that grows with the batch",
    "P7": "communication minus what the rest of the step can hide",
    "P8": "every rank with the work, or the speed, of the others",
    "P9": "speed-up = 1 / (1 - f (1 - r)), where f is the share of time in pauses and r the part "
    "of them that remains",
    "P10": "the one-off cost of a fix against its saving in the remaining steps",
    "P11": "the compute share of the step at the rated clock instead of the measured clock",
}
_CODE = re.compile(r"\bP(?:1[01]|[1-9])\b")


def predictor_legend(text: str) -> list[str]:
    """One line for each predictor code in a text."""
    codes = set(_CODE.findall(text))
    return [f"- {code}: {meaning}" for code, meaning in PREDICTORS.items() if code in codes]
