"""What a recording shows, by its events: training, inference, a phase of a serving engine, the
capture of a CUDA graph, a start, or a microbenchmark. What may be advised depends on it."""

from __future__ import annotations

import re
from typing import Final, cast

import numpy as np

from whyidle.analysis.device.lost_kernels import captured_launches
from whyidle.analysis.integer_codes import used_codes
from whyidle.analysis.steps.serving_steps import serving_steps
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.cause import MOSTLY
from whyidle.model.recording import Kind, Recording
from whyidle.model.roles import Role

_TRAINING: Final = (
    (Role.BACKWARD_NODE, "a backward pass"),
    (Role.BACKWARD, "a backward pass"),
    (Role.OPTIMIZER_CALL, "optimizer steps"),
    (Role.OPTIMIZER, "optimizer steps"),
)
STEP_KERNELS: Final = 10
"""a step of the smallest model runs more kernels, and of several kinds"""
_LEARNS: Final = re.compile(r"backward|_bwd|bprop|dgrad|wgrad|adam|adagrad|_sgd|lamb_", re.I)
_SERVES: Final = re.compile(r"reshape_and_cache|PagedKV|paged|store_?kv_?cache|vllm::|sgl_|sglang")
_DECODES: Final = re.compile(r"decode|paged_attention|splitkv|_mla|MultiCtasKv|pa_fwd", re.I)
_PREFILLS: Final = re.compile(r"prefill|extend|context_fmha|ragged", re.I)


def find_kind(scope: StepScope) -> Recording | None:
    """Return what a trace shows; None for a watched command, and where nothing tells."""
    timeline = scope.timeline
    if timeline.source.format == "probe":
        return None
    launches, captured = timeline.rows_of(Role.KERNEL_LAUNCH), captured_launches(timeline)
    if len(captured) > MOSTLY * len(launches):
        return _recording("graph_capture", None, f"{len(captured)} launches are captured")
    if len(timeline.rows_of(Role.BENCHMARK)):
        return _recording("microbenchmark", None, "marks of a benchmark")
    engine, phase = _serving_steps(scope)
    if engine:
        return _recording(phase or _phase_of_kernels(scope), engine, f"{engine}'s annotations")
    trains = next((text for role, text in _TRAINING if len(timeline.rows_of(role))), None)
    trains = trains or _names_of(scope, _LEARNS)
    if scope.cold_start or scope.reasons["compile"] + scope.reasons["startup"] > MOSTLY:
        return _recording("warm_up", None, "set-up takes most of the recorded time")
    if trains:
        return _recording("training", None, trains)
    if name := _names_of(scope, _SERVES):
        return _recording(_phase_of_kernels(scope), None, name)
    single = len(used_codes(scope.device.name)) == 1 and scope.steps.found_by is None
    if single and len(scope.kernels) < STEP_KERNELS:
        return _recording("microbenchmark", None, "one kernel, a few times")
    if len(scope.kernels):
        return _recording("inference", None, "neither a backward pass nor an optimizer")
    return None


def _recording(kind: Kind, engine: str | None, why: str) -> Recording:
    return Recording(kind=kind, engine=engine, why=why)


def _serving_steps(scope: StepScope) -> tuple[str | None, Kind | None]:
    """The engine whose annotations mark steps, and the phase that took most of them."""
    timeline, host = scope.timeline, scope.timeline.host
    engine, spent = serving_steps(timeline)[0], {}
    for kind, role in (("decode", Role.SERVING_DECODE), ("prefill", Role.SERVING_PREFILL)):
        rows = timeline.rows_of(role)
        spent[kind] = int((host.end[rows] - host.start[rows]).sum())
    phase = max(spent, key=lambda kind: spent[kind])
    known = cast("Kind", phase) if spent[phase] else None
    return (engine.replace("_", "-") if engine else None), known


def _names_of(scope: StepScope, pattern: re.Pattern[str]) -> str | None:
    """A kernel whose name matches."""
    names = scope.timeline.names
    found = (names[i] for i in used_codes(scope.device.name) if pattern.search(names[i]))
    name = next(found, None)
    return f"kernels such as {name[:60]}" if name else None


def _phase_of_kernels(scope: StepScope) -> Kind:
    """The phase by the names of the kernels, weighted by their time; *inference* if none tells."""
    timeline, device = scope.timeline, scope.device
    time = np.bincount(device.name, weights=device.end - device.start)
    shares = {
        kind: sum(float(t) for i, t in enumerate(time) if t and pattern.search(timeline.names[i]))
        for kind, pattern in (("decode", _DECODES), ("prefill", _PREFILLS))
    }
    best = max(shares, key=lambda kind: shares[kind])
    return cast("Kind", best) if shares[best] else "inference"
