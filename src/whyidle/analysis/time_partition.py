"""Every nanosecond of the device's time, given to exactly one reason.

Device activity first: useful kernels are *compute*, what is left of collectives and of
host-device copies is exposed. Idle gaps are then cut by what the host was doing, the most
specific reason first; a gap whose ending work was already queued is not the host's fault. What no
rule claims stays *unseen*. Sums are exhaustive by construction: each reason takes from what the
earlier ones left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import used_codes
from whyidle.analysis.evaluation_utilization import busy_at_most, busy_evaluating
from whyidle.analysis.host_activity import HostActivity, interrupting_rows
from whyidle.analysis.idle_gaps import Gaps, Launches, idle_gaps
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.kernel_classes import classify_kernel
from whyidle.analysis.queue_refills import PAUSE_NS, RunAhead, find_refills
from whyidle.analysis.step_detection import StepWindows
from whyidle.model.buckets import REASONS
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

I64 = NDArray[np.int64]

QUIET_NS = 1_000_000
"""a longer stretch without any event on the launching threads is not explained by the recording"""
CONTRADICTION_NS = 1_000_000
"""the device cannot be idle this long while the host waits for it, unless events are missing"""
LAZY_LAUNCH_NS = 2_000_000
"""a launch call this long on an idle device loads code, it does not wait for the queue"""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Disjoint intervals per reason that together cover the window of the steps."""

    parts: dict[str, Intervals]

    def reason_shares(self, start: I64, end: I64) -> dict[str, NDArray[np.float64]]:
        """Per window, the share of each reason; they sum to 1 per window."""
        length = np.maximum(end - start, 1)
        return {
            reason: part.length_inside(start, end) / length for reason, part in self.parts.items()
        }


def partition_time(
    timeline: Timeline, steps: StepWindows, linked: Launches, host: HostActivity | None = None
) -> Partition:
    """Give every moment of the steps' window to one reason. ``host`` is made where not given."""
    low, high = steps.window
    window = Intervals(np.array([low]), np.array([high]))
    host = host or HostActivity(timeline, linked)
    if not len(timeline.device):
        claims = _during(host, Role.STARTUP, Role.AFTER)
        known = timeline.info.kind == "cpu" and timeline.stepless is None
        claims += (
            _on_cpu(timeline, steps, host, window)
            if known
            else _marked_claims(timeline, steps, host)
        )
    else:
        gaps = idle_gaps(timeline, linked, low, high)
        claims = [*_on_device(timeline, host), *_in_gaps(timeline, steps, host, gaps)]
    parts = dict.fromkeys(REASONS, EMPTY)
    left = window
    for reason, claim in claims:
        taken = claim & left
        parts[reason] = parts[reason] | taken
        left = left - taken
    parts["unseen"] = parts["unseen"] | left
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
    busy = host.innermost_time((HostKind.RUNTIME, HostKind.OP))
    refills = _refill_claims(timeline, host, steps, gaps)
    frames = host.innermost_time((HostKind.PYTHON, HostKind.OVERHEAD))
    return [
        ("contradiction", stuck | _waiting_for_nothing(timeline, host, gaps)),
        ("device_gap", queued),
        *_interruption_claims(timeline, host, steps),
        *_during(host, Role.GC, Role.COMPILE, Role.ALLOCATOR),
        ("compile", _lazy_loading(timeline, host, gaps) | _setup_stretches(steps, gaps)),
        ("loader", host.time_in(Role.LOADER)),
        ("collective_wait", host.time_in(Role.COLLECTIVE_WAIT)),
        ("collective_call", _towards_collective(timeline, host, gaps)),
        ("copy_call", _crossing_calls(timeline, host)),
        ("preprocess", host.time_in(Role.PREPROCESS)),
        *refills,
        ("launch", busy),
        ("python", frames | _short_stretches(gaps, busy | frames)),
    ]


def _interruption_claims(timeline: Timeline, host: HostActivity, steps: StepWindows) -> Claims:
    """Saving, evaluating and publishing. A request inside the loader fetches data instead."""
    claims: Claims = []
    for role in (Role.CHECKPOINT, Role.EVALUATION, Role.LOGGING):
        rows = interrupting_rows(host, steps, role)
        claims.append((role.value, union_of(timeline.host.start[rows], timeline.host.end[rows])))
    reason, logging = claims[-1]
    return [*claims[:-1], (reason, logging - host.time_in(Role.LOADER))]


def _during(host: HostActivity, *roles: Role) -> Claims:
    """When events of some roles ran, for the reasons that are called so."""
    return [(role.value, host.time_in(role)) for role in roles]


def _queued_ends(gaps: Gaps) -> tuple[Intervals, Intervals]:
    """The end of each gap in which the next work was already launched: (normal, too long)."""
    start = np.maximum(gaps.start, gaps.launched)
    waits = (gaps.launched >= 0) & (start < gaps.end)
    start, end = start[waits], gaps.end[waits]
    long = end - start > CONTRADICTION_NS
    return Intervals(start[~long], end[~long]), Intervals(start[long], end[long])


def _waiting_for_nothing(timeline: Timeline, host: HostActivity, gaps: Gaps) -> Intervals:
    """The host waits for the device, which shows no work: kernels are missing here."""
    events = timeline.host
    rows = host.rows_of(Role.SYNC)
    copies = host.rows_of(Role.COPY_CALL)
    backwards = _calls_of(host, "d2h")
    rows = np.concatenate([rows, copies[np.isin(copies, backwards)]])
    waits = union_of(events.start[rows], events.end[rows]) & Intervals(gaps.start, gaps.end)
    long = waits.length > CONTRADICTION_NS
    return Intervals(waits.start[long], waits.end[long]) | _before_recording(timeline, host)


def _before_recording(timeline: Timeline, host: HostActivity) -> Intervals:
    """Until the first recorded device event, a host blocked in a copy waits for work that was
    launched before the recording began."""
    events, first = timeline.host, int(timeline.device.start.min())
    rows = np.concatenate([host.rows_of(Role.COPY_CALL), host.rows_of(Role.SYNC)])
    rows = rows[(events.start[rows] < first) & (events.end[rows] > events.start[rows])]
    blocked = union_of(events.start[rows], np.minimum(events.end[rows], first))
    long = blocked.length > CONTRADICTION_NS
    return Intervals(blocked.start[long], blocked.end[long])


def _calls_of(host: HostActivity, direction: str) -> I64:
    moved = host.direction == direction
    calls = host.linked.call[moved]
    return calls[calls >= 0]


def _crossing_calls(timeline: Timeline, host: HostActivity) -> Intervals:
    calls = np.concatenate([_calls_of(host, "h2d"), _calls_of(host, "d2h")])
    return union_of(timeline.host.start[calls], timeline.host.end[calls])


def _towards_collective(timeline: Timeline, host: HostActivity, gaps: Gaps) -> Intervals:
    """Short gaps that end with a collective, or lie between two with nothing but the copies that
    stage their data: the host was getting it out of the door."""
    device = timeline.device
    row = np.minimum(np.searchsorted(device.start, gaps.end), len(device) - 1)
    ends_so = host.collective[row] | _in_train(timeline, host)[row]
    ends_so &= (device.start[row] == gaps.end) & (gaps.launched >= 0)
    ends_so &= gaps.end - gaps.start < QUIET_NS
    return Intervals(gaps.start[ends_so], gaps.end[ends_so])


def _in_train(timeline: Timeline, host: HostActivity) -> NDArray[np.bool_]:
    """Whether each device event lies between two collectives with only staging copies around."""
    collective = np.flatnonzero(host.collective)
    other = np.cumsum(~host.collective & ~staging_copies(timeline, host))
    rows = np.arange(len(host.collective))
    after = np.searchsorted(collective, rows)
    inside = (after > 0) & (after < len(collective))
    if not len(collective):
        return inside
    before, behind = (collective[np.where(inside, after - back, 0)] for back in (1, 0))
    return inside & (other[behind] == other[before])


def staging_copies(timeline: Timeline, host: HostActivity) -> NDArray[np.bool_]:
    """Whether each device event moves data within the device."""
    device = timeline.device
    table = np.zeros(len(timeline.names) + 1, dtype=bool)
    for i in used_codes(device.name):
        table[i] = classify_kernel(timeline.names[i]).group == "copy"
    return (table[device.name] | (device.kind != DeviceKind.KERNEL)) & ~np.isin(
        host.direction, ("h2d", "d2h")
    )


def _lazy_loading(timeline: Timeline, host: HostActivity, gaps: Gaps) -> Intervals:
    events = timeline.host
    rows = host.rows_of(Role.LAUNCH_CALL)
    rows = rows[events.end[rows] - events.start[rows] > LAZY_LAUNCH_NS]
    copies = np.concatenate([_calls_of(host, d) for d in ("h2d", "d2h")])
    rows = rows[~np.isin(rows, copies)]
    return union_of(events.start[rows], events.end[rows]) & Intervals(gaps.start, gaps.end)


def _setup_stretches(steps: StepWindows, gaps: Gaps) -> Intervals:
    """Long idle stretches of warm-up steps: set-up that steady steps do not have."""
    warm = ~steps.steady
    if not warm.any() or not steps.steady.any():
        return EMPTY
    first = int(np.argmax(steps.steady))
    cold = union_of(steps.start[:first], steps.end[:first])
    long = gaps.end - gaps.start > QUIET_NS
    return Intervals(gaps.start[long], gaps.end[long]) & cold


def _refill_claims(
    timeline: Timeline, host: HostActivity, steps: StepWindows, gaps: Gaps
) -> Claims:
    """After a call that waited for the device to drain, the host must refill the queue. Giving
    memory back is such a call; what follows it is the allocator's, too."""
    events = timeline.host
    freed = np.intersect1d(host.rows_of(Role.ALLOCATOR), timeline.rows_of(Role.DEVICE_FREE))
    forwards = _calls_of(host, "h2d")
    backwards = _calls_of(host, "d2h")
    syncs = host.rows_of(Role.SYNC)
    after_copy = np.isin(_previous_call(timeline, syncs), forwards)
    copy_rows = np.concatenate([forwards, syncs[after_copy]])
    sync_rows = np.concatenate([backwards, syncs[~after_copy]])
    waited = np.concatenate([host.rows_of(Role.LOADER), host.rows_of(Role.COLLECTIVE_WAIT)])
    lost = np.sort(events.end[waited[events.end[waited] - events.start[waited] > QUIET_NS]])
    most = int(np.median(steps.end - steps.start))
    lead = RunAhead(lost, most, _slow_host_stretches(timeline, host, gaps))
    return [
        (reason, find_refills(gaps, events.start[rows], events.end[rows], lead))
        for reason, rows in (
            ("allocator", freed),
            ("copy_refill", copy_rows),
            ("sync_refill", sync_rows),
        )
    ]


def _slow_host_stretches(timeline: Timeline, host: HostActivity, gaps: Gaps) -> Intervals:
    """What takes the host long by itself: an operator that launches nothing, Python without any."""
    events = timeline.host
    rows = np.flatnonzero((events.kind == HostKind.OP) | (events.kind == HostKind.RUNTIME))
    rows = rows[np.isin(events.thread[rows], host.drivers)]
    quiet = Intervals(gaps.start, gaps.end) - union_of(events.start[rows], events.end[rows])
    long = quiet.length >= PAUSE_NS
    return Intervals(quiet.start[long], quiet.end[long]) | host.innermost_time(
        (HostKind.OP,), PAUSE_NS
    )


def _previous_call(timeline: Timeline, rows: I64) -> I64:
    """For each runtime call, the runtime call before it on its thread (-1: none)."""
    host = timeline.host
    previous = np.full(len(host), -1, dtype=np.int64)
    calls = np.flatnonzero(host.kind == HostKind.RUNTIME)
    order = calls[np.argsort(host.thread[calls], kind="stable")]
    same = host.thread[order[1:]] == host.thread[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    return previous[rows]


def _short_stretches(gaps: Gaps, seen: Intervals) -> Intervals:
    """Stretches of a gap with no event that are too short to hide anything else than Python."""
    quiet = Intervals(gaps.start, gaps.end) - seen
    short = quiet.length <= QUIET_NS
    return Intervals(quiet.start[short], quiet.end[short])


def _on_cpu(
    timeline: Timeline, steps: StepWindows, host: HostActivity, window: Intervals
) -> Claims:
    """A job whose device is the CPU: operators are the work itself, except in an evaluation, during
    which nothing is trained; a collective in flight with no operator running is exposed."""
    events = timeline.host
    flying = timeline.rows_of(Role.COLLECTIVE_FLIGHT)
    ops = np.flatnonzero(events.kind == HostKind.OP)
    ops = np.setdiff1d(ops, timeline.rows_of(Role.COLLECTIVE_RECORD))
    work = union_of(events.start[ops], events.end[ops])
    search = timeline.rows_of(Role.GRADIENT_SEARCH)
    search = search[events.kind[search] == HostKind.ANNOTATION]
    if timeline.source.format == "probe":  # samples: they need not nest with what was called
        python = np.flatnonzero(events.kind == HostKind.PYTHON)
        python = python[np.isin(events.thread[python], host.drivers)]
        frames = union_of(events.start[python], events.end[python])
    else:
        frames = host.innermost_time((HostKind.PYTHON,))
    between = _short_stretches(Gaps(window.start, window.end, window.start), work | frames)
    return [
        *_interruption_claims(timeline, host, steps),
        *_during(host, Role.COMPILE, Role.GC, Role.LOADER, Role.COLLECTIVE_WAIT, Role.PREPROCESS),
        ("python", union_of(events.start[search], events.end[search])),
        ("compute", work),
        ("collective", union_of(events.start[flying], events.end[flying])),
        *_during(host, Role.PRODUCER, Role.BLOCKED, Role.LOCKED),
        ("python", frames | between),
    ]


def _marked_claims(timeline: Timeline, steps: StepWindows, host: HostActivity) -> Claims:
    """A device of which only marks are known: when it waited for batches, and while the host saved,
    logged or collected garbage, as it is given nothing then; and of a process that is
    alone, when it had work, which it has as long as a synchronisation waits for it. With other
    ranks that may be their waiting for each other. How much work an evaluation gives it is known
    where the GPU's own busy share was read beside it; so is what of its work can be kernels."""
    told = host.progress
    if not told.is_sufficient or not steps.found_by:
        return []
    rows = host.rows_of(Role.LOADER)
    late = told.late_in(timeline.host.start[rows], timeline.host.end[rows])
    pauses = dict(_interruption_claims(timeline, host, steps)) | {"gc": host.time_in(Role.GC)}
    waiting = host.time_in(Role.SYNC)
    idle = late
    claims = [("loader", late)]
    for role in ("checkpoint", "logging", "gc"):
        still = told.late_in(pauses[role].start, pauses[role].end) - waiting
        claims.append((role, still))
        idle = idle | still
    apart = pauses["evaluation"]
    given, still = _evaluation_device_time(timeline, steps, apart - idle, waiting)
    claims.append(("evaluation", still))
    if (timeline.world_size or 1) > 1:
        return claims
    work = told.fed_in(*steps.on_host, idle, apart) | given | waiting
    return [*claims, ("compute", _of_kernels(timeline, steps, work - idle))]


def _of_kernels(timeline: Timeline, steps: StepWindows, work: Intervals) -> Intervals:
    """Of a device's work, copies included, what its kernels take at most, by reads of it; of each
    stretch the last part."""
    steady = union_of(steps.start[steps.steady], steps.end[steps.steady])
    share = (work & steady).total / max(steady.total, 1)
    part = min(1.0, busy_at_most(timeline, steps) / max(share, 1e-9))
    return union_of(work.end - (work.length * part).astype(np.int64), work.end)


def _evaluation_device_time(
    timeline: Timeline, steps: StepWindows, spans: Intervals, waiting: Intervals
) -> tuple[Intervals, Intervals]:
    """When the device worked while the host evaluated, and when it did not; nothing, where nobody
    read how busy it was. It works as long as the host waits for it; of the rest of each evaluation
    only the share is known, and the work is put first."""
    known = busy_evaluating(timeline, steps, spans)
    rest = spans - waiting
    if known is None or not rest.total:
        return EMPTY, EMPTY
    waited = spans.total - rest.total
    share = min(max(0.0, (known.evaluating * spans.total - waited) / rest.total), 1.0)
    until = rest.start + (rest.length * share).astype(np.int64)
    return union_of(rest.start, until), union_of(until, rest.end)
