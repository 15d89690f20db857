"""Partition of the device's time: every nanosecond has exactly one reason. Device activity comes
first: useful kernels are *compute*, the rest of collectives and host-device copies is exposed. Idle
gaps are then divided by the host's activity, the most specific reason first; a gap with its next
work already queued is not the host's. The rest is *unseen*. Each reason takes from what the earlier
ones left, so the parts cover everything."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.analysis.device.kernel_classes import classify_kernel
from whyidle.analysis.host.telemetry_window import telemetry_of
from whyidle.analysis.integer_codes import is_among, map_names
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.partition.host_activity import HostActivity, interrupting_rows
from whyidle.analysis.partition.idle_gaps import (
    Gaps,
    Launches,
    context_calls,
    idle_gaps,
    neighbour_calls,
)
from whyidle.analysis.partition.queue_refills import PAUSE_NS, RunAhead, find_refills
from whyidle.analysis.steps.step_detection import StepWindows
from whyidle.model.buckets import REASONS
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

QUIET_NS = 1_000_000
"""a longer period without any event on the launching threads is unexplained"""
CONTRADICTION_NS = 1_000_000
"""the device cannot idle this long while the host waits for it, unless events are missing"""
START_NS = 20_000
"""queued work for an idle device begins within this time; a launch takes 5 to 20 us (HTA)"""
LEAST_READS = 12
"""reads of a GPU's busy share; the mean of fewer is unreliable"""
LAZY_LAUNCH_NS = 2_000_000
"""a launch call this long on an idle device loads code rather than waiting for the queue"""


class Partition(Struct, frozen=True, eq=False):
    """Disjoint intervals per reason that together cover the window of the steps."""

    parts: dict[str, Intervals]

    def reason_shares(self, start: I64, end: I64) -> dict[str, F64]:
        """Return the share of each reason per window; they sum to 1."""
        length = np.maximum(end - start, 1)
        return {
            reason: part.length_inside(start, end) / length for reason, part in self.parts.items()
        }


def partition_time(
    timeline: Timeline, steps: StepWindows, linked: Launches, host: HostActivity | None = None
) -> Partition:
    """Partition the steps' window by reason. ``host`` is created if not given."""
    low, high = steps.window
    window = Intervals(np.array([low]), np.array([high]))
    host = host or HostActivity(timeline, linked)
    if not len(timeline.device):
        claims = _claims_of(host, Role.STARTUP, Role.AFTER)
        if timeline.stepless is None and len(timeline.rows_of(Role.EXECUTION)):
            claims += _beside_host(timeline, steps, host, window)
        elif timeline.info.kind == "cpu" and timeline.stepless is None:
            claims += _on_cpu(timeline, steps, host, window)
        else:
            claims += _marked_claims(timeline, steps, host)
    else:
        gaps = idle_gaps(timeline, linked, low, high)
        claims = [*_on_device(timeline, host), *_in_gaps(timeline, steps, host, gaps)]
    parts = dict.fromkeys(REASONS, EMPTY)
    rest = window
    for reason, claim in claims:
        part = claim & rest
        parts[reason] = parts[reason] | part
        rest = rest - part
    parts["unseen"] = parts["unseen"] | rest
    return Partition(parts)


Claims = list[tuple[str, Intervals]]


def _on_device(timeline: Timeline, host: HostActivity) -> Claims:
    device, collective = timeline.device, host.collective
    crossing = np.isin(host.direction, ("h2d", "d2h"))
    useful = ~collective & ~crossing
    return [
        ("compute", union_of(device.start[useful], device.end[useful])),
        ("collective", union_of(device.start[collective], device.end[collective])),
        ("copy", union_of(device.start[crossing], device.end[crossing])),
    ]


def _in_gaps(timeline: Timeline, steps: StepWindows, host: HostActivity, gaps: Gaps) -> Claims:
    queued, stuck = _queued_ends(gaps)
    crossing = _calls_of(host, "h2d", "d2h")
    busy = host.innermost_time((HostKind.RUNTIME, HostKind.OP))
    refills = _refill_claims(timeline, host, steps, gaps)
    frames = host.innermost_time((HostKind.PYTHON, HostKind.OVERHEAD))
    late = queued.select(queued.length > START_NS) & _waiting_for_device(timeline, host)
    return [
        ("contradiction", stuck | _waiting_for_nothing(timeline, host, gaps)),
        ("sync_refill", late),
        ("device_gap", queued),
        *_interruption_claims(timeline, host, steps),
        *_claims_of(host, Role.GC, Role.COMPILE),
        ("compile", _lazy_loading(timeline, host, gaps) | _setup_stretches(steps, gaps)),
        *_claims_of(host, Role.ALLOCATOR),
        ("loader", host.time_in(Role.LOADER)),
        ("collective_wait", host.time_in(Role.COLLECTIVE_WAIT)),
        ("collective_call", _towards_collective(timeline, host, gaps)),
        ("copy_call", union_of(timeline.host.start[crossing], timeline.host.end[crossing])),
        ("preprocess", host.time_in(Role.PREPROCESS)),
        *refills,
        ("launch", busy),
        ("python", frames | _short_stretches(gaps, busy | frames)),
    ]


def _interruption_claims(timeline: Timeline, host: HostActivity, steps: StepWindows) -> Claims:
    """Saving, evaluating and publishing, without requests inside the loader, which fetch data."""
    claims: Claims = []
    for role in (Role.CHECKPOINT, Role.EVALUATION, Role.CALLBACK, Role.LOGGING):
        rows = interrupting_rows(host, steps, role)
        claims.append((role.value, union_of(timeline.host.start[rows], timeline.host.end[rows])))
    reason, logging = claims[-1]
    return [*claims[:-1], (reason, logging - host.time_in(Role.LOADER))]


def _claims_of(host: HostActivity, *roles: Role) -> Claims:
    return [(role.value, host.time_in(role)) for role in roles]


def _queued_ends(gaps: Gaps) -> tuple[Intervals, Intervals]:
    """The end of each gap in which the next work was already launched: (normal, too long)."""
    start = np.maximum(gaps.start, gaps.launched)
    waits = (gaps.launched >= 0) & (start < gaps.end)
    start, end = start[waits], gaps.end[waits]
    long = end - start > CONTRADICTION_NS
    return Intervals(start[~long], end[~long]), Intervals(start[long], end[long])


def _waiting_for_device(timeline: Timeline, host: HostActivity) -> Intervals:
    """When a thread that launches waits for a result of the device."""
    backwards = np.intersect1d(host.rows_of(Role.COPY_CALL), _calls_of(host, "d2h"))
    rows = np.concatenate([host.rows_of(Role.SYNC), backwards])
    return union_of(timeline.host.start[rows], timeline.host.end[rows])


def _waiting_for_nothing(timeline: Timeline, host: HostActivity, gaps: Gaps) -> Intervals:
    """When the host waits for a device without recorded work: kernels are missing."""
    waits = _waiting_for_device(timeline, host) & Intervals(gaps.start, gaps.end)
    return waits.select(waits.length > CONTRADICTION_NS) | _before_recording(timeline, host)


def _before_recording(timeline: Timeline, host: HostActivity) -> Intervals:
    """When the host waits for work launched before the recording."""
    events, first = timeline.host, int(timeline.device.start.min())
    rows = np.concatenate([host.rows_of(Role.COPY_CALL), host.rows_of(Role.SYNC)])
    rows = rows[(events.start[rows] < first) & (events.end[rows] > events.start[rows])]
    blocked = union_of(events.start[rows], np.minimum(events.end[rows], first))
    return blocked.select(blocked.length > CONTRADICTION_NS)


def _calls_of(host: HostActivity, *directions: str) -> I64:
    calls = host.linked.call[np.isin(host.direction, directions)]
    return calls[calls >= 0]


def _towards_collective(timeline: Timeline, host: HostActivity, gaps: Gaps) -> Intervals:
    """Short gaps that end with a collective, or between two with only staging copies."""
    device = timeline.device
    row = np.minimum(np.searchsorted(device.start, gaps.end), len(device) - 1)
    selected = host.collective[row] | _in_train(timeline, host)[row]
    selected &= (device.start[row] == gaps.end) & (gaps.launched >= 0)
    selected &= gaps.end - gaps.start < QUIET_NS
    return Intervals(gaps.start[selected], gaps.end[selected])


def _in_train(timeline: Timeline, host: HostActivity) -> Mask:
    collective = np.flatnonzero(host.collective)
    other = np.cumsum(~host.collective & ~staging_copies(timeline, host))
    rows = np.arange(len(host.collective))
    after = np.searchsorted(collective, rows)
    inside = (after > 0) & (after < len(collective))
    if not len(collective):
        return inside
    before, following = (collective[np.where(inside, after - back, 0)] for back in (1, 0))
    return inside & (other[following] == other[before])


def staging_copies(timeline: Timeline, host: HostActivity) -> Mask:
    """Return whether each device event moves data within the device."""
    device = timeline.device
    groups = map_names(timeline.names, device.name, lambda name: classify_kernel(name).group, "U16")
    crossing = np.isin(host.direction, ("h2d", "d2h"))
    return ((groups == "copy") | (device.kind != DeviceKind.KERNEL)) & ~crossing


def _lazy_loading(timeline: Timeline, host: HostActivity, gaps: Gaps) -> Intervals:
    events = timeline.host
    rows = host.rows_of(Role.LAUNCH_CALL)
    rows = rows[events.end[rows] - events.start[rows] > LAZY_LAUNCH_NS]
    rows = rows[~np.isin(rows, _calls_of(host, "h2d", "d2h"))]
    rows = np.concatenate([rows, context_calls(timeline)])
    return union_of(events.start[rows], events.end[rows]) & Intervals(gaps.start, gaps.end)


def _setup_stretches(steps: StepWindows, gaps: Gaps) -> Intervals:
    """Long idle periods of warm-up steps: set-up that steady steps lack."""
    first = steps.warm_up_count
    cold = union_of(steps.start[:first], steps.end[:first])
    idle = Intervals(gaps.start, gaps.end)
    return idle.select(idle.length > QUIET_NS) & cold


def _refill_claims(
    timeline: Timeline, host: HostActivity, steps: StepWindows, gaps: Gaps
) -> Claims:
    """Idle time while the host refills the queue after a call that drained the device."""
    events = timeline.host
    freed = np.intersect1d(host.rows_of(Role.ALLOCATOR), timeline.rows_of(Role.DEVICE_FREE))
    forwards = _calls_of(host, "h2d")
    backwards = _calls_of(host, "d2h")
    syncs = host.rows_of(Role.SYNC)
    after_copy = np.isin(neighbour_calls(timeline)[0][syncs], forwards)
    copy_rows = np.concatenate([forwards, syncs[after_copy]])
    sync_rows = np.concatenate([backwards, syncs[~after_copy]])
    waited = np.concatenate([host.rows_of(Role.LOADER), host.rows_of(Role.COLLECTIVE_WAIT)])
    lost = np.sort(events.end[waited[events.end[waited] - events.start[waited] > QUIET_NS]])
    most = int(np.median(steps.end - steps.start))
    lead = RunAhead(lost, most, _slow_host_stretches(timeline, host, gaps))
    calls = {"allocator": freed, "copy_refill": copy_rows, "sync_refill": sync_rows}
    return [
        (reason, find_refills(gaps, events.start[rows], events.end[rows], lead))
        for reason, rows in calls.items()
    ]


def _slow_host_stretches(timeline: Timeline, host: HostActivity, gaps: Gaps) -> Intervals:
    """Long operators without launches, and long Python without operators."""
    events = timeline.host
    rows = np.flatnonzero((events.kind == HostKind.OP) | (events.kind == HostKind.RUNTIME))
    rows = rows[np.isin(events.thread[rows], host.drivers)]
    quiet = Intervals(gaps.start, gaps.end) - union_of(events.start[rows], events.end[rows])
    slow = host.innermost_time((HostKind.OP,), PAUSE_NS)
    return quiet.select(quiet.length >= PAUSE_NS) | slow


def _short_stretches(gaps: Gaps, covered: Intervals) -> Intervals:
    """Eventless periods of a gap too short for anything other than Python."""
    quiet = Intervals(gaps.start, gaps.end) - covered
    return quiet.select(quiet.length <= QUIET_NS)


def _on_cpu(
    timeline: Timeline, steps: StepWindows, host: HostActivity, window: Intervals
) -> Claims:
    """Claims if the CPU is the device: operators are the work, except in evaluations; a collective
    without a running operator is exposed."""
    events = timeline.host
    flying = timeline.rows_of(Role.COLLECTIVE_FLIGHT)
    ops = np.flatnonzero(events.kind == HostKind.OP)
    ops = np.setdiff1d(ops, timeline.rows_of(Role.COLLECTIVE_RECORD))
    work = union_of(events.start[ops], events.end[ops])
    search = timeline.rows_of(Role.GRADIENT_SEARCH)
    search = search[events.kind[search] == HostKind.ANNOTATION]
    if timeline.source.format == "probe":  # samples need not nest with recorded calls
        python = np.flatnonzero(events.kind == HostKind.PYTHON)
        python = python[np.isin(events.thread[python], host.drivers)]
        frames = union_of(events.start[python], events.end[python])
    else:
        frames = host.innermost_time((HostKind.PYTHON,))
    between = _short_stretches(Gaps(window.start, window.end, window.start), work | frames)
    return [
        *_interruption_claims(timeline, host, steps),
        *_claims_of(
            host, Role.COMPILE, Role.GC, Role.LOADER, Role.COLLECTIVE_WAIT, Role.PREPROCESS
        ),
        ("python", union_of(events.start[search], events.end[search])),
        ("unseen", _undivided_calls(timeline)),
        ("compute", work),
        ("collective", union_of(events.start[flying], events.end[flying])),
        *_claims_of(host, Role.PRODUCER, Role.BLOCKED, Role.LOCKED),
        ("python", frames | between),
    ]


def _undivided_calls(timeline: Timeline) -> Intervals:
    """Calls of a watched job that take their batch and compute, where no record tells the one from
    the other: a thread that is seen to sleep there neither reports nor certainly computes."""
    events = timeline.host
    if timeline.source.format != "probe":
        return EMPTY
    rows = timeline.rows_of(Role.OPTIMIZER)
    rows = rows[events.kind[rows] == HostKind.ANNOTATION]
    ops = np.flatnonzero((events.kind == HostKind.OP) & (events.detail < 0))
    recorded = union_of(events.start[ops], events.end[ops])
    return union_of(events.start[rows], events.end[rows]) - recorded


def _beside_host(
    timeline: Timeline, steps: StepWindows, host: HostActivity, window: Intervals
) -> Claims:
    """Claims if whole steps run beside the thread that calls them: what the host does meanwhile
    costs nothing, and only recorded operators are work. An evaluation reads its results: those
    waits are its own."""
    events = timeline.host
    recorded = events.detail < 0
    ops = np.flatnonzero((events.kind == HostKind.OP) & recorded)
    waits = host.rows_of(Role.SYNC)
    work = union_of(events.start[ops], events.end[ops])
    work = work | union_of(events.start[waits], events.end[waits])
    sampled = np.flatnonzero(~recorded & is_among(events.thread, host.drivers))
    frames = union_of(events.start[sampled], events.end[sampled])
    between = _short_stretches(Gaps(window.start, window.end, window.start), work | frames)
    reasons = (Role.COMPILE, Role.GC, Role.LOADER, Role.PREPROCESS, Role.PRODUCER, Role.BLOCKED)
    pauses = _interruption_claims(timeline, host, steps)
    return [
        *_claims_of(host, Role.COMPILE),
        *(claim for claim in pauses if claim[0] == "evaluation"),
        ("compute", work),
        *pauses,
        *_claims_of(host, *reasons, Role.LOCKED),
        ("python", frames | between),
    ]


def _marked_claims(timeline: Timeline, steps: StepWindows, host: HostActivity) -> Claims:
    """Claims for a device with marks only: waits for batches, and idle time in pauses. With a
    single rank also its work, which includes synchronisations; with more ranks these may wait for
    each other."""
    progress = host.progress
    if not progress.is_sufficient or not steps.found_by:
        return []
    rows = host.rows_of(Role.LOADER)
    late_batches = progress.late_in(timeline.host.start[rows], timeline.host.end[rows])
    pauses = dict(_interruption_claims(timeline, host, steps)) | {"gc": host.time_in(Role.GC)}
    waiting = host.time_in(Role.SYNC)
    idle = late_batches
    claims = [("loader", late_batches)]
    for role in ("checkpoint", "logging", "gc"):
        idle_part = progress.late_in(pauses[role].start, pauses[role].end) - waiting
        claims.append((role, idle_part))
        idle = idle | idle_part
    if (timeline.world_size or 1) > 1:
        return claims
    work = progress.fed_in(*steps.on_host, idle, pauses["evaluation"]) | waiting
    return [*claims, ("compute", _of_kernels(timeline, steps, work - idle))]


def _of_kernels(timeline: Timeline, steps: StepWindows, work: Intervals) -> Intervals:
    """The part of the work that kernels take at most, by telemetry of the busy share."""
    steady = union_of(steps.start[steps.steady], steps.end[steps.steady])
    share = (work & steady).total / max(steady.total, 1)
    part = min(1.0, _busy_at_most(timeline, steps) / max(share, 1e-9))
    return union_of(work.end - (work.length * part).astype(np.int64), work.end)


def _busy_at_most(timeline: Timeline, steps: StepWindows) -> float:
    """The busy share of the steady steps by telemetry of the process's own GPU, plus two standard
    errors; 1 where unknown."""
    steady = steps.steady
    outside = telemetry_of(timeline, Intervals(steps.start[steady][:1], steps.end[steady][-1:]))
    gpu = outside.exclusive_gpu if outside else None
    values = outside.read_intervals("busy_ratio", gpu)[2] if outside and gpu else np.empty(0)
    if len(values) < LEAST_READS:
        return 1.0
    return min(1.0, float(values.mean() + 2 * values.std(ddof=1) / len(values) ** 0.5))
