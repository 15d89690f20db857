"""Debugging modes that a watched process reports, and how often each is on."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.sampled_lines import sampled_where
from whyidle.model.buckets import Bucket
from whyidle.model.cause import LEAST_SHARE
from whyidle.model.process_facts import Switches
from whyidle.model.roles import Role


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode that slows steps down."""

    id: str
    headline: str
    costs: tuple[float, float, float]  # class figure: share of work and Python (low to high)
    frames: Role | None = None  # of the mode's own code in samples
    whole: tuple[float, float, float] = (1.0, 1.0, 1.0)  # total cost / time of these samples
    of_backward: tuple[float, ...] = ()  # part of backward passes that it adds beside its samples
    within: Bucket | None = None  # what it slows down, if not work and Python
    operators: re.Pattern[str] | None = None  # that it slows down, of all work in a burst
    source: re.Pattern[str] | None = None  # how sources switch it on


ANOMALY = Mode(
    "anomaly_mode",
    "Autograd's anomaly mode is on: it records the call stack of every operator and searches every "
    "gradient for NaN",
    (0.1, 0.4, 0.7),  # reports: 1.1 to 3 times slower
    Role.STACK_RECORDING,
    # searches took 10, 14, 32, 43, 57 and 63 % of the backward pass (perceptrons, a convolutional
    # network, an LSTM cell, a transformer; PyTorch 2.13, CPU)
    of_backward=(0.1, 0.4, 0.65),
)
PROFILER = Mode(
    "torch_profiler",
    "The PyTorch profiler records every step",
    (0.02, 0.15, 0.46),  # facebookresearch/dlrm#197: 23 ms steps became 43 ms; 5 us per operator
    Role.PROFILER_CODE,  # it starts, stops and sums up, in Python
    # it also slows operators down: a job that recorded shapes and memory took 1.3 times as much
    whole=(1.0, 1.3, 2.0),
)
TRACER = Mode(
    "tracing",
    "A debugger or coverage tool traces every line of Python",
    (0.0, 0.02, 0.5),  # no cost where the time is in operators
    Role.TRACER_FRAME,
)
HOOKED = Mode(
    "profiling",
    "A Python profiler is called at every function",
    (0.0, 0.02, 0.5),
    Role.PYTHON_PROFILER_FRAME,
)
ALLOCATIONS = Mode(
    "tracemalloc",
    "Python's tracemalloc is on: it traces every allocation",
    # four small networks took 1.1, 1.3, 1.5 and 2.2 times as long (the last splits texts)
    (0.08, 0.25, 0.55),
)
ALLOCATION_STACKS = Mode(
    "tracemalloc_stacks",
    "Python's tracemalloc is on: it records the call stack of every allocation",
    (0.2, 0.6, 0.85),  # the same with 20 frames: 1.3, 2.2, 3.3 and 6 times as long
)
NARROW = Mode(
    "narrow_cpu",
    "Autocast makes the model compute in a type of 16 bits, which this processor does not multiply",
    # forward and backward passes of linear layers of 64 to 1024 took 2.1, 4.8, 5.8 and 10 times as
    # long in bfloat16 on a processor with AVX2
    (0.5, 0.8, 0.9),
    operators=re.compile(r"mm$|linear|conv|attention|rnn|lstm|gru|matmul"),
)
DETERMINISTIC = Mode(
    "deterministic",
    "Deterministic algorithms are enabled, which also fills memory before use",
    (0.0, 0.01, 0.2),  # on a CPU few operators have another algorithm
)
EAGER_MODEL = Mode(
    "run_eagerly",
    "The model was compiled with run_eagerly=True: every operator of a step is called from Python, "
    "one by one",
    # a small network took 14 to 20 times as long (Keras 3.15, CPU); work in large operators stays
    (0.2, 0.85, 0.95),
    source=re.compile(r"\brun_eagerly\s*=(?!\s*(=|False|None))"),
)
EAGER_FUNCTIONS = Mode(
    "functions_eager",
    "tf.config.run_functions_eagerly(True) is on: every tf.function runs as plain Python",
    (0.2, 0.85, 0.95),
    source=re.compile(r"\brun_functions_eagerly\((?!False)"),
)
UNCOMPILED = Mode(
    "jax_disable_jit",
    "Compilation is off (jax_disable_jit): every operator is called by itself, from Python",
    # small networks took 7, 25, 33 and 53 times as long (JAX 0.10, CPU); work in large operators
    # stays
    (0.3, 0.95, 0.98),
    source=re.compile(r"\b(jax_)?disable_jit\b"),
)
LEAKS = Mode(
    "jax_check_tracer_leaks",
    "JAX searches every trace for values that outlive it (jax_check_tracer_leaks)",
    (0.0, 0.05, 0.6),  # nothing measured on steps of 4 ms, 2.4 times as long on shorter ones
    within="host",  # calls are dispatched beside the device: a busy one waits for nothing
)
NANS = Mode(
    "jax_debug_nans",
    "JAX searches every result for NaN and waits for it (jax_debug_nans)",
    (0.0, 0.05, 0.5),  # 1.09 times as long on steps of 4 ms (JAX 0.10, CPU)
    within="host",
)
EAGER = (EAGER_MODEL, EAGER_FUNCTIONS, UNCOMPILED)
ALWAYS = (PROFILER, TRACER, HOOKED, ALLOCATIONS, ALLOCATION_STACKS, NARROW)
"""modes that count only if they are always on"""
MODES = (ANOMALY, *ALWAYS, DETERMINISTIC, *EAGER, LEAKS, NANS)


def _runs_late(facts: Facts, mode: Mode) -> bool:
    """Whether a mode's own code still takes time in the last third of the steps in scope."""
    plays, scope = facts.timeline.vocabulary.plays, facts.scope
    if mode.frames is None or not len(scope):
        return False
    begin, end, role = scope.start[0], scope.end[-1], mode.frames
    last = union_of(np.array([end - (end - begin) // 3]), np.array([end])) & scope
    spans = sampled_where(facts, lambda stack: plays(role, stack)) & last
    return spans.total >= LEAST_SHARE * last.total


def active_share(facts: Facts, mode: Mode) -> float:
    """Share of the samples of the settings in which a mode is on. Profilers and tracers are meant
    for a few steps. They count if they are always on or still run at the end."""
    process = facts.timeline.process
    if mode in ALWAYS:
        samples, on = process.own.get("looks"), process.own.get(mode.id)
        return float(bool(samples and on) and (on == samples or _runs_late(facts, mode)))
    switches = process.switches or Switches()
    if samples := switches.seen.get("looks"):
        return min(switches.seen.get(mode.id, 0) / samples, 1.0)
    return float(bool(getattr(switches, mode.id, None)))
