"""Debugging modes that a watched process tells of, and how often each was seen on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whyidle.analysis.facts import Facts
from whyidle.model.buckets import Bucket
from whyidle.model.process_facts import Switches
from whyidle.model.roles import Role


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode that slows steps down. ``costs`` is a class figure: the share of work and Python that
    goes into it (careful, expected, hopeful); ``frames`` are what samples show of it, and
    ``whole`` how many times as much all of it takes. One that a ``variable`` of the environment
    switches on, with such ``values``, is on all the time; ``within`` is the bucket that it slows
    down, if not work and Python."""

    id: str
    headline: str
    costs: tuple[float, float, float]
    frames: Role | None = None
    whole: tuple[float, float, float] = (1.0, 1.0, 1.0)
    variable: str = ""
    values: re.Pattern[str] = re.compile(".")
    within: Bucket | None = None


ANOMALY = Mode(
    "anomaly_mode",
    "Autograd's anomaly mode is on: it records where every operator is called and searches every "
    "gradient for NaN",
    (0.1, 0.4, 0.7),  # reports say 1.1 to 3 times slower
    Role.STACK_RECORDING,
    # what it noted of calls took 56 to 91 us an operator; the mode 1.3, 1.35, 1.55, 1.8 and 1.8
    # times as much, as every gradient is searched (perceptrons, a convolutional network, a
    # transformer; PyTorch 2.13, CPU)
    whole=(1.0, 1.55, 1.85),
)
PROFILER = Mode(
    "torch_profiler",
    "A profiler of PyTorch is on in every step",
    (0.02, 0.15, 0.46),  # facebookresearch/dlrm#197: 23 ms steps became 43 ms; 5 us per operator
)
TRACER = Mode(
    "tracing",
    "A debugger or coverage tool traces every line of Python",
    (0.0, 0.02, 0.5),  # nothing where the time is in operators
    Role.TRACER_FRAME,
)
HOOKED = Mode(
    "profiling",
    "A profiler of Python is called at every function",
    (0.0, 0.02, 0.5),
    Role.PYTHON_PROFILER_FRAME,
)
DETERMINISTIC = Mode(
    "deterministic",
    "Deterministic algorithms are asked for, which also fills memory before its use",
    (0.0, 0.01, 0.2),  # on a CPU hardly anything has another algorithm
)
MALLOC = Mode(
    "PYTHONMALLOC",
    "Python's allocator is in debug mode (PYTHONMALLOC): it fills and checks every block of memory",
    (0.0, 0.02, 0.35),  # loops that make objects took 1.5 times as long, operators 1.0 to 1.08
    variable="PYTHONMALLOC",
    values=re.compile("debug"),
)
DEVMODE = Mode(
    "PYTHONDEVMODE",
    "Python runs in development mode (PYTHONDEVMODE): it fills and checks every block of memory",
    (0.0, 0.02, 0.35),  # as its allocator is in debug mode, too
    variable="PYTHONDEVMODE",
)
EXCHANGES = Mode(
    "TORCH_DISTRIBUTED_DEBUG",
    "Every exchange is checked on all ranks before it is made (TORCH_DISTRIBUTED_DEBUG=DETAIL)",
    (0.0, 0.02, 0.5),  # another exchange each; its time is hardly known
    variable="TORCH_DISTRIBUTED_DEBUG",
    values=re.compile("^DETAIL$", re.IGNORECASE),
    within="communication",
)
WAITS = Mode(
    "sync_debug",
    "CUDA reports every wait for the device (torch.cuda.set_sync_debug_mode)",
    (0.0, 0.01, 0.2),  # a warning each, with its line
    within="host",
)
SWITCHED = (MALLOC, DEVMODE, EXCHANGES, WAITS)
"""those that a process tells of whatever its device is"""
MODES = (ANOMALY, PROFILER, TRACER, HOOKED, DETERMINISTIC, *SWITCHED)


def seen_on(facts: Facts, mode: Mode) -> float:
    """In what share of the looks a mode was on. Modes of the training thread count only where they
    were on in its first step and in all: profilers are meant to be on for a few steps."""
    process = facts.timeline.process
    if mode.variable:
        return float(bool(mode.values.search(process.environment.get(mode.variable, ""))))
    if mode in (PROFILER, TRACER, HOOKED):
        looks = process.own.get("looks")
        return float(bool(looks) and process.own.get(mode.id) == looks)
    switches = process.switches or Switches()
    if looks := switches.seen.get("looks"):
        return min(switches.seen.get(mode.id, 0) / looks, 1.0)
    return float(bool(getattr(switches, mode.id)))
