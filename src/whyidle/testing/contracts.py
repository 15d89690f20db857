"""Promises of every plug-in, as checks. Each takes one registered object and raises
``AssertionError`` with a sentence. The project runs them over its whole catalog; other packages can
do so over theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct, structs

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.model.buckets import BUCKETS
from whyidle.model.cause import SECTIONS, Cause, Proof
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.fix import Fix, Proposal
from whyidle.model.knobs import setting_problem
from whyidle.model.loader_tables import PADDING, ROW
from whyidle.model.signals import FACTS, SIGNALS
from whyidle.model.timeline import Detail, HostKind, MemorySamples, Timeline
from whyidle.testing.builder import ARRIVE_NS, LAUNCH_NS, Builder, us
from whyidle.testing.recorded_job import RecordedJob

_CALL_NS = us(10)
_LOADER = re.compile(
    r"DataLoader|dataloader|^## (data_load|load_batch|wait_for)|batch$|^IteratorGetNext$|"
    r"^(grain|datasets|webdataset|nvidia)\."
)


class Fleet:
    """Ranks of one job. ``offsets_ns`` is how far each rank's clock is ahead; ``leave_ns(rank,
    collective)`` how much later than the first that rank leaves a collective."""

    def __init__(
        self,
        count: int,
        *,
        offsets_ns: Sequence[int] = (),
        leave_ns: Callable[[int, int], int] = lambda rank, number: 0,  # noqa: ARG005
        **builder: Any,
    ) -> None:
        world = builder.pop("world_size", count)
        self.ranks = [Builder(rank=rank, world_size=world, **builder) for rank in range(count)]
        self._offsets = list(offsets_ns) or [0] * count
        self._leave = leave_ns
        self._met = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Record one profiler step on every rank."""
        with ExitStack() as stack:
            for rank in self.ranks:
                stack.enter_context(rank.step())
            yield

    def collective(self, transfer: int, *, stream: int = 20, **options: Any) -> None:
        """Let all ranks meet in a collective."""
        begins = [self._begin(rank, stream) for rank in self.ranks]
        end = max(begins) + transfer
        for index, (rank, begin) in enumerate(zip(self.ranks, begins, strict=True)):
            late = self._leave(index, self._met)
            rank.collective(end + late - begin, stream=stream, **options)
        self._met += 1

    def join(self) -> None:
        """Make the compute stream of every rank wait for the collectives."""
        for rank in self.ranks:
            rank.join()

    def timelines(self) -> list[Timeline]:
        """Return the recordings, each in its rank's clock."""
        recordings: list[Timeline] = []
        for rank, offset in zip(self.ranks, self._offsets, strict=True):
            for event in rank.events:
                event["ts"] += offset / 1_000
            timeline = rank.timeline()
            for event in rank.events:
                event["ts"] -= offset / 1_000
            path = f"rank{len(recordings)}.json"
            recordings.append(replace(timeline, source=replace(timeline.source, path=path)))
        return recordings

    @staticmethod
    def _begin(rank: Builder, stream: int) -> int:
        free = max(rank._free.get(stream, 0), rank._free.get(7, 0))
        return max(rank.now + _CALL_NS + LAUNCH_NS + ARRIVE_NS, free + 1_000)


BuiltJob = Builder | RecordedJob | Fleet | Timeline | list[Timeline]


@dataclass(frozen=True, slots=True)
class Pair:
    """Functions that build a job on which the cause fires, and a similar, healthy one."""

    sick: Callable[[], BuiltJob]
    healthy: Callable[[], BuiltJob]


def build_timelines(job: BuiltJob) -> list[Timeline]:
    """Return the recordings of a built job's ranks."""
    if isinstance(job, Fleet):
        return job.timelines()
    if isinstance(job, Builder | RecordedJob):
        return [job.timeline()]
    return job if isinstance(job, list) else [job]


def run_cause(cause: Cause, timelines: list[Timeline]) -> Proof | None:
    """Return a cause's proof, or None where it abstains or finds nothing."""
    job = Job(tuple(Facts(timeline) for timeline in timelines))
    if cause.missing_signals(job.signals):
        return None
    if job.lead_rank.step_count < cause.min_steps:
        return None
    proof: Proof | None = cause.test(job if cause.scope == "job" else job.lead_rank)
    return proof


def check_declaration(cause: Cause) -> None:
    """Check that a cause is documented in sections and names a known bucket and signals."""
    assert cause.bucket in BUCKETS, f"{cause.id}: unknown bucket {cause.bucket}"
    assert all(need in SIGNALS for need in cause.needs), f"{cause.id}: unknown signal"
    assert cause.needs, f"{cause.id} needs no evidence, so it would always guess"
    position = -1
    for section in SECTIONS:
        place = cause.doc.find(section)
        assert place > position, f"{cause.id}: section {section!r} is missing or out of order"
        position = place


def check_silent(cause: Cause, healthy: list[Timeline]) -> None:
    """Check that a cause reports nothing in a healthy job."""
    proof = run_cause(cause, healthy)
    if proof is not None:
        gain = 1.0 - 1.0 / proof.predicted.speedup
        worst = min(gain, proof.high)
        assert worst < 0.03, f"{cause.id} blames a healthy job for {worst:.1%}"


def check_proof(cause: Cause, proof: Proof) -> None:
    """Check that a cause's proof is complete and within bounds."""
    assert 0.0 <= proof.low <= proof.high <= 1.0, f"{cause.id}: lost {proof.low}..{proof.high}"
    assert proof.evidence, f"{cause.id} has no evidence"
    assert 0.0 < proof.confidence <= 1.0, f"{cause.id}: confidence {proof.confidence}"
    predicted = proof.predicted
    assert predicted.low <= predicted.speedup <= predicted.high, f"{cause.id}: interval"
    assert predicted.speedup >= 1.0, f"{cause.id} predicts a slow-down"
    assert predicted.low > 0.0, f"{cause.id}: interval"
    numbers = [predicted.low, predicted.speedup, predicted.high, proof.low, proof.high]
    assert np.isfinite(numbers).all(), f"{cause.id}: numbers that are not finite"
    assert proof.headline[:1].isupper() or not proof.headline[:1].isalpha()
    assert not proof.headline.endswith("."), f"{cause.id}: a headline has no full stop"


def check_deterministic(cause: Cause, timelines: list[Timeline]) -> None:
    """Check that the same recording gives the same proof."""
    assert run_cause(cause, timelines) == run_cause(cause, timelines), cause.id


def check_abstains(cause: Cause, timelines: list[Timeline]) -> None:
    """Check that a cause gives no proof without any one of its signals."""
    for need in cause.needs:
        stripped = strip_signal(need, timelines)
        job = Job(tuple(Facts(timeline) for timeline in stripped))
        assert need not in job.signals, f"{need} is still seen where it was removed"
        if not cause.missing_signals(job.signals):  # a signal of watched runs replaces it
            stripped = strip_signal(cause.watched[0], stripped)
        assert run_cause(cause, stripped) is None, f"{cause.id} guesses without {need}"


def check_leaves_input(cause: Cause, timelines: list[Timeline]) -> None:
    """Check that a cause does not change the recordings that it reads."""
    before = _contents(timelines)
    run_cause(cause, timelines)
    assert _contents(timelines) == before, f"{cause.id} changes what it reads"


def _contents(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if is_dataclass(value):
        names = [field.name for field in fields(value) if not field.name.startswith("_")]
        return {name: _contents(getattr(value, name)) for name in names}
    if isinstance(value, msgspec.Struct):
        return {name: _contents(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {key: _contents(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_contents(item) for item in value]
    return value


def check_pair(cause: Cause, pair: Pair) -> None:
    """Check a cause on its pair: it fires on the sick job, by contract, and not on the healthy
    one."""
    sick = build_timelines(pair.sick())
    check_leaves_input(cause, sick)
    proof = run_cause(cause, sick)
    assert proof is not None, f"{cause.id} is silent on its sick job"
    check_proof(cause, proof)
    check_deterministic(cause, sick)
    check_abstains(cause, sick)
    check_silent(cause, build_timelines(pair.healthy()))


def check_fix(fix: Fix, causes: dict[str, Cause]) -> None:
    """Check that a fix is documented and names existing causes."""
    assert fix.causes, f"{fix.id} names no cause"
    unknown = [cause for cause in fix.causes if cause not in causes]
    assert not unknown, f"{fix.id} names {unknown}, which are no causes"
    assert fix.doc.strip(), f"{fix.id} has no docstring"


def check_proposal(fix: Fix, proposal: Proposal) -> None:
    """Check that a proposal has a summary or edits, edits known settings, predicts an interval."""
    assert proposal.summary or proposal.edits, f"{fix.id} proposes nothing"
    assert proposal.edits or not proposal.automatic, f"{fix.id} is automatic and edits nothing"
    wrong = [text for edit in proposal.edits if (text := setting_problem(edit.knob, edit.value))]
    assert not wrong, f"{fix.id}: {wrong}"
    if (predicted := proposal.predicted) is not None:
        numbers = [predicted.low, predicted.speedup, predicted.high]
        assert np.isfinite(numbers).all(), f"{fix.id}: numbers that are not finite"
        assert 0.0 < predicted.low <= predicted.speedup <= predicted.high, f"{fix.id}: interval"


def check_round_trip(diagnosis: Diagnosis) -> None:
    """Check that a diagnosis survives encoding and decoding, byte for byte."""
    text = msgspec.json.encode(diagnosis)
    again = msgspec.json.decode(text, type=Diagnosis)
    assert again == diagnosis
    assert msgspec.json.encode(again) == text


def check_bounds(diagnosis: Diagnosis) -> None:
    """Check that shares sum to one, and that findings fit their buckets and fixes."""
    shares = {bucket: getattr(diagnosis.attribution, bucket) for bucket in BUCKETS}
    assert abs(sum(shares.values()) - 1.0) < 1e-6
    assert all(share >= 0.0 for share in shares.values())
    for bucket, share in shares.items():
        findings = [f for f in diagnosis.findings if f.bucket == bucket]
        most = sum(finding.lost.high for finding in findings)
        assert most <= share + 1e-5, f"findings of {bucket} claim {most:.3f} of {share:.3f}"
        for finding in findings:
            is_marked = not finding.exceeds_bucket or most >= share - 1e-3
            assert is_marked, (
                f"{finding.cause} costs {finding.lost.high:.3f}, a fix wins {finding.best_saving}"
            )
    if diagnosis.verdict.state == "inconclusive":
        for finding in diagnosis.findings:
            promises = finding.severity != "info" or finding.fixes or finding.removal
            assert not promises, f"{finding.cause} promises something, but nothing is concluded"
    assert [f.expected_loss for f in diagnosis.findings] == sorted(
        (f.expected_loss for f in diagnosis.findings), reverse=True
    )


def _without_host(timeline: Timeline, *kinds: HostKind) -> Timeline:
    return replace(timeline, host=timeline.host.take_rows(~np.isin(timeline.host.kind, kinds)))


def _without_names(timeline: Timeline, pattern: re.Pattern[str]) -> Timeline:
    matches = [i for i, name in enumerate(timeline.names) if pattern.search(name)]
    return replace(timeline, host=timeline.host.take_rows(~np.isin(timeline.host.name, matches)))


def _steps(timeline: Timeline) -> Timeline:
    return _without_host(_device_events(timeline), *HostKind)


def _change(part: str, **changes: object) -> Callable[[Timeline], Timeline]:
    def strip(timeline: Timeline) -> Timeline:
        old = getattr(timeline, part)
        renew: Any = structs.replace if isinstance(old, Struct) else replace
        changed: dict[str, Any] = {part: renew(old, **changes)}
        return replace(timeline, **changed)

    return strip


def _batches(timeline: Timeline) -> Timeline:
    batches = timeline.loading.batches
    loading = replace(timeline.loading, batches=batches[batches["worker"] < 0])
    return replace(timeline, loading=loading)


def _telemetry(timeline: Timeline) -> Timeline:
    return replace(timeline, telemetry=None)


def _device_events(timeline: Timeline) -> Timeline:
    return replace(timeline, device=timeline.device.take_rows(np.empty(0, np.int64)))


def _launch_links(timeline: Timeline) -> Timeline:
    host = timeline.host.take_rows(np.arange(len(timeline.host)))
    host.corr[:] = -1
    return replace(timeline, host=host)


def _stacks(timeline: Timeline) -> Timeline:
    details = tuple(replace(detail, stack="") for detail in timeline.details)
    return _without_host(replace(timeline, details=details), HostKind.PYTHON)


def _shapes(timeline: Timeline) -> Timeline:
    details: tuple[Detail, ...] = tuple(replace(d, dims="", types="") for d in timeline.details)
    return replace(timeline, details=details)


def _memory(timeline: Timeline) -> Timeline:
    empty = np.empty(0, np.int64)
    return replace(timeline, memory=MemorySamples(empty, empty, empty))


STRIPPERS: Final[dict[str, Callable[[Timeline], Timeline]]] = {
    "device_events": _device_events,
    "tfdata_model": _change("process", pipelines=()),
    "device_time": lambda timeline: _without_host(_device_events(timeline), HostKind.OP),
    "host_ops": lambda timeline: _without_host(timeline, HostKind.OP),
    "every_operator": lambda timeline: _without_host(timeline, HostKind.OP),
    "runtime_calls": lambda timeline: _without_host(timeline, HostKind.RUNTIME),
    "launch_links": _launch_links,
    "steps": _steps,
    "steady_steps": _steps,
    "loader_marks": lambda timeline: _without_names(timeline, _LOADER),
    "worker_batches": _batches,
    "row_sums": _change("loading", rows=np.zeros(0, ROW)),
    "batch_padding": _change("loading", padding=np.zeros(0, PADDING)),
    "pause_marks": lambda timeline: _without_host(
        _stacks(timeline), HostKind.ANNOTATION, HostKind.OP
    ),
    "python_stacks": _stacks,
    **{signal: _change("process", **{fact: None}) for signal, fact in FACTS.items()},
    "model_look": _change("process", model_look=None),
    "shapes": _shapes,
    "memory_events": _memory,
    "memory_capacity": _change("info", memory_bytes=None),
    "gpu_model": _change("info", name=None),
    "world_size": lambda timeline: replace(timeline, world_size=None),
    "device_use": lambda timeline: replace(timeline, telemetry=None, world_size=None),
    "device_marks": lambda timeline: replace(timeline, marks=timeline.marks[:0]),
    "host_telemetry": _telemetry,
    "gpu_telemetry": _telemetry,
}
"""signal -> function that removes it from one recording"""


def strip_signal(signal: str, timelines: Sequence[Timeline]) -> list[Timeline]:
    """Return the recordings of a job without one signal.

    Raises:
        KeyError: the signal is not known here.
    """
    if signal == "several_ranks":
        return list(timelines[:1])
    return [STRIPPERS[signal](timeline) for timeline in timelines]
