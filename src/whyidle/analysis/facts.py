"""All that causes may read about one rank's recording, computed once and on demand."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.device.device_peaks import DevicePeaks, peak_of
from whyidle.analysis.device.flops import Work, work_of_events
from whyidle.analysis.device.kernel_classes import KernelClass, classify_kernel
from whyidle.analysis.device.kernel_launches import KernelLaunches
from whyidle.analysis.device.lost_kernels import captured_launches
from whyidle.analysis.device.operator_times import OperatorTime, operator_times
from whyidle.analysis.device.optimizer_work import OptimizerWork, optimizer_work
from whyidle.analysis.input.loader_workers import LoaderWorkers
from whyidle.analysis.integer_codes import used_codes
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.step_by_line import StepLine, divide_step
from whyidle.analysis.partition.device_waits import DeviceWaits
from whyidle.analysis.ranks.blocking_collectives import held_up
from whyidle.analysis.ranks.collectives import Collectives, find_collectives
from whyidle.analysis.steps.burst_choice import sort_bursts, with_run_context
from whyidle.analysis.steps.serving_steps import serving_steps
from whyidle.analysis.steps.step_replay import StepReplay
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.cause import MOSTLY
from whyidle.model.recording import Kind, Recording
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

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


PAUSES = (Role.CHECKPOINT, Role.EVALUATION, Role.LOGGING, Role.GC)
"""roles of host events that interrupt training"""


def signals_of(facts: StepScope) -> frozenset[str]:
    """Return ids of ``whyidle.model.signals``."""
    recorded, host, outside = set(facts.timeline.available_signals()), facts.host, facts.telemetry
    has_steps, gpus = bool(facts.steps.found_by), outside.gpus if outside else ()
    derived = {
        "device_time": "device_events" in recorded or (facts.on_cpu and "host_ops" in recorded),
        "device_marks": not facts.on_cpu and host.progress.is_sufficient,
        "model_look": has_steps and facts.timeline.process.model_look is not None,
        "stepless": facts.has_no_steps,
        "steps": has_steps,
        "steady_steps": has_steps and facts.steps.steady.sum() >= 2,
        "loader_marks": len(host.rows_of(Role.LOADER)),
        "pause_marks": "python_stacks" in recorded or any(len(host.rows_of(r)) for r in PAUSES),
        "gpus_beside": facts.on_cpu and (facts.timeline.process.gpus or gpus),
        "host_telemetry": outside and outside.job_processes,
        "gpu_telemetry": outside and outside.own_gpus and not facts.on_cpu,
        "device_use": recorded >= {"device_events", "gpu_model", "world_size"}
        or len(gpus) > (0 if facts.has_no_steps else 1),
    }
    return frozenset(recorded | {signal for signal, known in derived.items() if known})


LEAST_NS: Final = 50_000
"""an operator without work takes up to 20 us under a profiler (dispatch, views); one core streams
about half a megabyte in this time"""
OTHERS: Final = (
    Role.LOADER,
    Role.PREPROCESS,
    Role.CHECKPOINT,
    Role.EVALUATION,
    Role.LOGGING,
    Role.COMPILE,
    Role.COLLECTIVE_WAIT,
)
"""roles whose time has causes of its own"""
NO_WORK: Final = (Role.DATA_MOVEMENT, Role.COLLECTIVE_RECORD, Role.BACKWARD_NODE)
"""operators that move data, wait, or are marks"""


def find_cpu_work(facts: StepScope) -> tuple[I64, Intervals]:
    """Return the operators in scope that compute on the CPU (host rows), and when they run."""
    host = facts.timeline.host
    rows = facts.host.innermost_rows((HostKind.OP,), LEAST_NS)
    rows = rows[facts.host_scope.contains_times(host.start[rows])]
    rows = np.setdiff1d(rows, np.concatenate([facts.timeline.rows_of(r) for r in NO_WORK]))
    for role in OTHERS if len(rows) else ():
        rows = rows[~facts.host.time_in(role).contains_times(host.start[rows])]
    return rows, union_of(host.start[rows], host.end[rows])


Scalar = TypeVar("Scalar", bound=np.generic)


class Facts(StepScope):
    """The facts of one rank's recording."""

    live: Facts | None = None
    """of a burst: its whole run"""

    @cached_property
    def kernel_classes(self) -> dict[int, KernelClass]:
        """Class of every device event's name (by index into ``timeline.names``)."""
        names = used_codes(self.timeline.device.name)
        return {int(i): classify_kernel(self.timeline.names[i]) for i in names}

    @cached_property
    def group(self) -> NDArray[np.str_]:
        """Kernel group of every device event."""
        return self._by_class(lambda kernel: kernel.group, np.dtype("U16"))

    @cached_property
    def precision(self) -> NDArray[np.str_]:
        """Precision of every device event ("" unknown)."""
        return self._by_class(lambda kernel: kernel.precision or "", np.dtype("U5"))

    @cached_property
    def uses_tensor_cores(self) -> Mask:
        """Whether every device event is matrix work on tensor cores."""
        return self._by_class(lambda kernel: bool(kernel.tensor), np.dtype(bool))

    def _by_class(
        self, value: Callable[[KernelClass], object], dtype: np.dtype[Scalar]
    ) -> NDArray[Scalar]:
        table = np.zeros(len(self.timeline.names) + 1, dtype=dtype)
        for i, kernel in self.kernel_classes.items():
            table[i] = value(kernel)
        return table[self.timeline.device.name]

    @cached_property
    def collectives(self) -> Collectives:
        """The collectives of the whole recording."""
        return find_collectives(self.timeline, self.steps, self.host)

    @cached_property
    def held_up(self) -> Intervals:
        """Exposed communication in scope with the next work already queued."""
        return held_up(self)

    @cached_property
    def work(self) -> Work:
        """FLOPs and bytes of every device event, from recorded shapes; nan where unknown."""
        seconds = self.durations_s(np.arange(len(self.device)))
        return work_of_events(self.timeline, self.launching_op, seconds)

    @cached_property
    def peak(self) -> DevicePeaks | None:
        """The device's peaks; None where it is not in the table."""
        return peak_of(self.timeline.info)

    @cached_property
    def launching_op(self) -> I64:
        """For every device event, the innermost operator that launched it (-1: unknown)."""
        host, calls = self.timeline.host, self.launches.call
        operators = np.full(len(calls), -1, dtype=np.int64)
        for thread, (rows, nesting) in self.ops[1].items():
            own = np.flatnonzero((calls >= 0) & (host.thread[np.maximum(calls, 0)] == thread))
            inner = nesting.innermost_at(host.start[calls[own]])
            operators[own] = np.where(inner >= 0, rows[inner], -1)
        return operators

    @cached_property
    def in_graph(self) -> Mask:
        """Whether every device event was launched with a graph, so that it has no operator."""
        launches = self.timeline.rows_of(Role.GRAPH_LAUNCH)
        return np.isin(self.launches.call, launches) & self.launches.has_launch

    @cached_property
    def graph_share(self) -> float:
        """Share of the kernel time in scope that was launched with graphs (0-1)."""
        rows = self.kernels
        time = self.durations_s(rows)
        return float(time[self.in_graph[rows]].sum() / max(time.sum(), 1e-12))

    @cached_property
    def cpu_work(self) -> tuple[I64, Intervals]:
        """Operators in scope that compute on the CPU of a GPU job (host rows), and their time."""
        return find_cpu_work(self)

    @cached_property
    def kind(self) -> Recording | None:
        """What the recording shows; None for a watched command, and where nothing tells."""
        return find_kind(self)

    @cached_property
    def kernel_launching(self) -> KernelLaunches:
        """How the host feeds the device."""
        return KernelLaunches(self)

    @cached_property
    def waits(self) -> DeviceWaits:
        """Where the host waits for the device."""
        return DeviceWaits(self, self.kernel_launching)

    @cached_property
    def workers(self) -> LoaderWorkers:
        """The loader from within."""
        return LoaderWorkers(self)

    @cached_property
    def optimizer(self) -> OptimizerWork | None:
        """What the optimizer's steps consist of; None where none is marked."""
        return optimizer_work(self, self.kernel_launching)

    @cached_property
    def optimizer_loop(self) -> Intervals:
        """Time in optimizer steps that update one parameter after the other."""
        work = self.optimizer
        loops = work is not None and work.is_replaceable
        return self.kernel_launching.optimizer if loops else EMPTY

    @property
    def replay(self) -> StepReplay:
        """The steps in scope, ready to run again with less host time."""
        return self.kernel_launching.replay

    @property
    def profiler_share(self) -> float:
        """Estimated share of the step that the recording cost on the host (0-1)."""
        return self.kernel_launching.recording_cost

    @cached_property
    def burst(self) -> Facts | None:
        """The burst whose surrounding steps are most like those in scope."""
        bursts = sort_bursts(self.timeline.bursts, self.step_s)
        if not bursts:
            return None
        run = (self.step_s, self.reasons) if self.host.progress.is_sufficient else None
        burst = Facts(with_run_context(bursts[0], self.timeline, self.steps, run))
        burst.live = self
        return burst

    @cached_property
    def operators(self) -> list[OperatorTime]:
        """Operators in scope by their own time, the largest first."""
        return operator_times(self)

    @cached_property
    def lines(self) -> list[StepLine]:
        """The lines of the user's program in the steps in scope, those with most time first."""
        return divide_step(self)

    @cached_property
    def signals(self) -> frozenset[str]:
        """The signals of this rank."""
        return signals_of(self)
