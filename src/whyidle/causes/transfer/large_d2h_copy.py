"""Large tensors are copied back to the host in every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.copies import BIG_BYTES, COPY_S, copy_place, pinned_gbs
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.host_activity import interrupting_rows
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.step_replay import no_change
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_digits, format_duration
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which reading back is not worth a word"""
KEPT = (None, 0.02, 0.0)
"""what stays of the copies (careful: all bytes, at the rate of pinned memory; expected: read at
every fiftieth step, as often as Lightning reports by default, or as few bytes; hopeful: a number or
two)"""


@cause(
    "Large tensors are read back from the device",
    bucket="transfer",
    needs=("device_events", "runtime_calls", "launch_links", "steps"),
)
def large_d2h_copy(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Whole outputs, activations or states go from the device to the host in the training loop:
    ``predictions.append(logits.cpu())``, ``.numpy()`` on a batch of images.

    Why it costs
    ------------
    The program waits until the device has finished and every byte has crossed the link, slowly
    where it lands in pageable memory; then the launch queue is empty.

    How it is detected
    ------------------
    Copies to the host of a megabyte and more, in at least two steps, with nothing useful beside
    them, outside of checkpoints and evaluation. The gain is the replay of the recorded steps:
    carefully with the copies at the rate of pinned memory and the wait kept, expected with a
    fiftieth of the bytes and no wait, hopefully without them; the last two without the cost of
    recording.

    What looks alike
    ----------------
    A scalar read back costs its wait, not its bytes: ``per-step-host-sync``. An operator that runs
    on the host and sends its result back is ``cpu-fallback-op``. Offloading on a stream of its own
    runs beside compute and is not exposed.

    What to do
    ----------
    Reduce on the device and read the result (``argmax``, sums, metrics); read every k-th step; or
    copy into pinned memory with ``non_blocking=True`` and read it a step later.

    References
    ----------
    PyTorch, "A guide on good usage of non_blocking and pin_memory()".
    """
    rows = _large_copies(facts)
    exposed = facts.share_of(facts.time_of("copy", "copy_call") & _copy_spans(facts, rows))
    if (
        exposed < LEAST_SHARE
        or facts.cold_start
        or _steps_with_copies(facts, rows) < min(2, facts.step_count)
    ):
        return None
    gains = _copy_gains(facts, rows)
    size = float(facts.device.size[rows].sum()) / facts.step_count
    took = float(facts.durations_s(rows).sum()) / facts.step_count
    return Proof(
        headline=f"{format_digits(size / 1e6)} MB per step are read back from the device, "
        "which waits "
        f"{format_duration(exposed * facts.step_s)} for it",
        low=min(gains[0], exposed),
        high=exposed,
        predicted=from_gains(gains, "recorded steps replayed with fewer bytes and no wait"),
        evidence=(
            make_evidence(
                "bytes read back per step", size, "bytes", samples=len(rows), source="copies"
            ),
            make_evidence("their rate", size / max(took, 1e-9), "B/s", source="copies"),
            make_evidence("copies with nothing beside them, share of step", exposed, "ratio"),
        ),
        confidence=0.85,
        where=tuple(place for place in [copy_place(facts, rows)] if place),
    )


def _large_copies(facts: Facts) -> NDArray[np.int64]:
    """Large copies to the host, outside of pauses and of operators that run there."""
    host, rows = facts.timeline.host, facts.device_rows
    rows = rows[(facts.direction[rows] == "d2h") & (facts.device.size[rows] >= BIG_BYTES)]
    calls = facts.launches.call[rows]
    rows = rows[calls >= 0]
    calls = calls[calls >= 0]
    fallbacks = np.concatenate([np.empty(0, np.int64), *facts.waits.cpu_fallbacks])
    keep = ~np.isin(calls, fallbacks)
    for role in (Role.CHECKPOINT, Role.EVALUATION):
        pauses = interrupting_rows(facts.host, facts.steps, role)
        keep &= ~union_of(host.start[pauses], host.end[pauses]).contains_times(host.start[calls])
    return rows[keep]


def _copy_spans(facts: Facts, rows: NDArray[np.int64]) -> Intervals:
    host, calls = facts.timeline.host, facts.launches.call[rows]
    inside = union_of(host.start[calls], host.end[calls])
    return inside | union_of(facts.device.start[rows], facts.device.end[rows])


def _steps_with_copies(facts: Facts, rows: NDArray[np.int64]) -> int:
    begins = facts.device.start[rows]
    return len(np.unique(np.searchsorted(facts.steps.start, begins, side="right")))


def _copy_gains(facts: Facts, rows: NDArray[np.int64]) -> tuple[float, float, float]:
    replay, waits = facts.replay, facts.waits.waits_in(facts.launches.call[rows])
    took = np.maximum(facts.durations_s(rows), 1e-9)
    pace = float(facts.device.size[rows].sum()) / max(float(took.sum()), 1e-9) / 1e9
    rate = pinned_gbs(facts, pace)[1] * 1e9
    gains = []
    recording = facts.launching.without_recording(1.0)
    for kept in KEPT:
        unrecorded = no_change if kept is None else recording
        faster = np.minimum((COPY_S + facts.device.size[rows] / rate) / took, 1.0)
        factor = np.ones(len(facts.device))
        factor[rows] = faster if kept is None else kept
        then = replay.replayed_length(
            unrecorded, without=None if kept is None else waits, factor=factor
        )
        gains.append(max(0.0, 1.0 - then / replay.replayed_length(unrecorded)))
    low, middle, high = sorted(gains)
    return low, middle, high
