"""What a line of a training step is for."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Purpose(str, Enum):
    """What the time at a line of the user's program is spent on."""

    DATA = "data"
    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    CLIPPING = "clipping"
    NORMS = "norms"
    METRICS = "metrics"
    LOGGING = "logging"
    RENDERING = "rendering"
    SIMULATION = "simulation"
    FILES = "files"
    SUBPROCESS = "subprocess"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    COLLECTOR = "collector"
    COMPILER = "compiler"
    COMMUNICATION = "communication"
    OTHER = "other"


MEANINGS: Final[dict[Purpose, str]] = {
    Purpose.DATA: "next batch",
    Purpose.FORWARD: "model, forward",
    Purpose.LOSS: "loss",
    Purpose.BACKWARD: "backward pass",
    Purpose.OPTIMIZER: "optimizer",
    Purpose.CLIPPING: "gradient clipping",
    Purpose.NORMS: "norms of parameters",
    Purpose.METRICS: "metrics",
    Purpose.LOGGING: "logging",
    Purpose.RENDERING: "drawing",
    Purpose.SIMULATION: "simulation",
    Purpose.FILES: "files",
    Purpose.SUBPROCESS: "another process",
    Purpose.CHECKPOINT: "checkpoint",
    Purpose.EVALUATION: "evaluation",
    Purpose.COLLECTOR: "garbage collection",
    Purpose.COMPILER: "compiler",
    Purpose.COMMUNICATION: "other ranks",
    Purpose.OTHER: "your code",
}
"""purpose -> what a line does, in tables"""
TRAINING: Final = frozenset(
    {
        Purpose.DATA,
        Purpose.FORWARD,
        Purpose.LOSS,
        Purpose.BACKWARD,
        Purpose.OPTIMIZER,
        Purpose.CLIPPING,
        Purpose.OTHER,
    }
)
"""purposes that do not describe a line that only reports, such as a copy of an optimizer's state"""
REPORTS: Final = frozenset({Purpose.METRICS, Purpose.LOGGING, Purpose.RENDERING})
"""purposes of libraries that report, unless the source shows that training uses the result"""
