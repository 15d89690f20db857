"""The host reads large tensors back from the device in every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.device.copies import BIG_BYTES, COPY_S, copy_place, pinned_gbs
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.host_activity import interrupting_rows
from whyidle.analysis.steps.forecast import from_gains
from whyidle.analysis.steps.step_replay import no_change
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_digits, format_duration
from whyidle.model.roles import Role

REMAINING = (None, 0.02, 0.0)
"""share of the copies that remains. Lower bound (None): all bytes, at the rate of pinned memory;
expected: reads at every 50th step, Lightning's default for logging; upper bound: a few numbers"""


@cause(
    "Large tensors are read back from the device",
    bucket="transfer",
    needs=("device_events", "runtime_calls", "launch_links"),
)
def large_d2h_copy(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The training loop copies whole outputs, activations or states to the host:
    ``predictions.append(logits.cpu())``, ``.numpy()`` on a batch of images.

    Why it costs
    ------------
    The program waits until the device has finished and every byte is copied; then the queue is
    empty.

    How it is detected
    ------------------
    Copies to the host of at least 1 MB run without concurrent useful work, in at least two steps
    (without steps: at least three copies). Checkpoints and evaluation do not count. The prediction
    replays the recorded steps. The lower bound copies all bytes at the rate of pinned memory and
    keeps the waits. The expected gain assumes a fiftieth of the bytes, the upper bound no copies.

    What looks alike
    ----------------
    A scalar that is read back costs its wait, not its bytes: ``per-step-host-sync``. An operator
    that runs on the host is reported as ``cpu-fallback-op``. Offloading on its own stream does not
    count.

    What to do
    ----------
    Reduce on the device and read only the result (``argmax``, sums, metrics). Read every k-th step,
    or copy into pinned memory with ``non_blocking=True`` and read one step later.

    References
    ----------
    PyTorch, "A guide on good usage of non_blocking and pin_memory()".
    """
    rows = _large_copies(facts)
    exposed = facts.share_of(facts.time_of("copy", "copy_call") & _copy_spans(facts, rows))
    steps = np.unique(np.searchsorted(facts.steps.start, facts.device.start[rows], side="right"))
    stepwise = facts.steps.found_by is not None
    enough = (
        len(steps) >= min(2, facts.step_count) if stepwise else len(rows[2:]) > 0
    )  # not the result alone
    if exposed < LEAST_SHARE or facts.cold_start or not enough:
        return None
    gains = _copy_gains(facts, rows)
    size = float(facts.device.size[rows].sum()) / facts.step_count
    took = float(facts.durations_s(rows).sum()) / facts.step_count
    return Proof(
        headline=f"The host reads {format_digits(size / 1e6)} MB{' per step' if stepwise else ''} "
        "back from the device, "
        f"which waits {format_duration(exposed * facts.step_s)}",
        low=min(gains[0], exposed),
        high=exposed,
        predicted=from_gains(gains, "replay of the recorded steps with fewer bytes and no wait"),
        evidence=(
            make_evidence("bytes read per step", size, "bytes", samples=len(rows), source="copies"),
            make_evidence("their rate", size / max(took, 1e-9), "B/s", source="copies"),
            make_evidence("exposed copies, share of step", exposed, "ratio"),
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


def _copy_gains(facts: Facts, rows: NDArray[np.int64]) -> tuple[float, float, float]:
    replay, waits = facts.replay, facts.waits.waits_in(facts.launches.call[rows])
    took = np.maximum(facts.durations_s(rows), 1e-9)
    pace = float(facts.device.size[rows].sum()) / max(float(took.sum()), 1e-9) / 1e9
    rate = pinned_gbs(facts, pace)[1] * 1e9
    gains = []
    recording = facts.kernel_launching.without_recording(1.0)
    for remaining in REMAINING:
        unrecorded = no_change if remaining is None else recording
        faster = np.minimum((COPY_S + facts.device.size[rows] / rate) / took, 1.0)
        factor = np.ones(len(facts.device))
        factor[rows] = faster if remaining is None else remaining
        then = replay.replayed_length(
            unrecorded, without=None if remaining is None else waits, factor=factor
        )
        gains.append(max(0.0, 1.0 - then / replay.replayed_length(unrecorded)))
    low, middle, high = sorted(gains)
    return low, middle, high
