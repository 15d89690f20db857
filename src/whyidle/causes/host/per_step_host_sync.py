"""The host waits for the device in the midst of every step."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.kernel_launches import RECORDING, replay_of
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

LEAST_GAIN = 0.005
"""share of the step below which a wait is harmless: the host was ahead, and is again at once"""
MOST_PLACES = 3
LOOKED_UP = 400
"""at most this many waits are located"""
CAREFUL = 0.8
"""the careful prediction leaves a fifth of the gain: a value is still read, if later"""


@cause(
    "The CPU waits for the GPU in every step",
    bucket="sync",
    needs=("device_events", "runtime_calls", "launch_links", "steps"),
)
def per_step_host_sync(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``.item()``, ``.cpu()``, ``print(tensor)``, ``if tensor:``, ``nonzero`` or an explicit
    ``synchronize()`` makes the CPU wait until the GPU has done everything launched so far.

    Why it costs
    ------------
    While it waits the CPU launches nothing, so when the GPU has drained its queue, it idles until
    the CPU has filled it again. CPU and GPU take turns instead of working at the same time. The
    wait itself costs nothing: the gap after it does.

    How it is detected
    ------------------
    Calls that end when device work ends, and idle time of the device after them, at most as much
    as the wait was long. The gain is the replay of the recorded steps without these waits (P3:
    ``T^ = max(C, G)``, so at most ``min(C, G)`` less what overlaps already).

    What looks alike
    ----------------
    A long wait beside a busy GPU, when the next work is queued again at once, is harmless however
    long it is; so is the synchronisation with which the profiler ends a recording. A wait for a
    copy to the device is ``pageable-h2d-copy`` or ``blocking-h2d-copy``; one of the allocator is
    ``allocator-thrash``; one before work on the CPU is ``cpu-fallback-op``.

    What to do
    ----------
    Read scalars every k-th step or one step late, accumulate metrics on the device, replace
    boolean masks by ``torch.where``.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization";
    lnccbrown/LANfactory#120 (4 % won where 85 % was expected).
    """
    rows = facts.waits.avoidable_waits
    if not len(rows):
        return None
    gains = _sync_gains(facts, rows)
    if gains[2] < LEAST_GAIN:
        return None
    host = facts.timeline.host
    lost = facts.bucket_share("sync_refill")
    blocked = float((host.end[rows] - host.start[rows]).sum() / 1e9) / facts.scope_s
    operators = _waiting_operators(facts, rows)
    per_step = len(rows) / facts.step_count
    return Proof(
        headline=f"The CPU waits for the GPU {_format_count(per_step)} per step"
        + (f" in {operators[0]}" if operators else "")
        + ", and the GPU then for the CPU",
        low=min(gains[0], max(lost, gains[1])),
        high=max(lost, gains[1]),
        predicted=from_gains(gains, "P3: recorded steps replayed without the waits"),
        evidence=_sync_evidence(facts, len(rows), blocked, lost, operators),
        confidence=0.85,
        where=_sync_places(facts, rows),
        facts=HostFacts(scalar=_reads_scalars(facts, operators)),
    )


def _format_count(count: float) -> str:
    return f"{count:.0f} times" if count >= 1.5 else "once"


def _sync_gains(facts: Facts, rows: NDArray[np.int64]) -> tuple[float, float, float]:
    """Careful, expected, hopeful. Recording slows the host down, which can hide or show a wait:
    what it costs is expected to go where it was measured. A batch that takes long may be waited
    for, or only handed over."""
    replays, gains, expected = [facts.replay], [], []
    usual = 1.0 if facts.launching.is_cost_measured else 0.0
    if len(facts.rows_of(Role.BATCH_FROM_WORKERS)):
        replays.append(replay_of(facts, patient=True))
    for replay in replays:
        for scale in (0.0, *RECORDING):
            saved = facts.launching.without_recording(scale)
            now, then = replay.replayed_length(saved), replay.replayed_length(saved, without=rows)
            gains.append(max(0.0, 1.0 - then / now))
            expected += [gains[-1]] if scale == usual else []
    return min(gains) * CAREFUL, sum(expected) / len(expected), max(gains)


def _waiting_operators(facts: Facts, rows: NDArray[np.int64]) -> list[str]:
    """Operators, else runtime calls, that wait; the most frequent first."""
    names, host = facts.timeline.names, facts.timeline.host
    found = Counter(
        facts.waits.operator_around(int(row)) or names[host.name[row]] for row in rows[:LOOKED_UP]
    )
    return [name for name, _ in found.most_common()]


def _reads_scalars(facts: Facts, operators: list[str]) -> bool:
    """Whether all of these operators read one number."""
    plays = facts.timeline.vocabulary.plays
    return bool(operators) and all(plays(Role.SCALAR_OPERATOR, name) for name in operators)


def _sync_places(facts: Facts, rows: NDArray[np.int64]) -> tuple[Place, ...]:
    found: Counter[tuple[str | None, int | None, str | None]] = Counter()
    for row in rows[:LOOKED_UP]:
        place = facts.places.place_of(facts.waits.operator_row(int(row)))
        if place is not None:
            found[place.file, place.line, place.function] += 1
    return tuple(
        Place(file=file, line=line, function=function, rank=facts.rank)
        for (file, line, function), _ in found.most_common(MOST_PLACES)
    )


def _sync_evidence(
    facts: Facts, count: int, blocked: float, lost: float, operators: list[str]
) -> tuple[Evidence, ...]:
    listed = (
        ("waits for the device per step", count / facts.step_count, None, "runtime"),
        ("host blocked, share of step", blocked, "ratio", "runtime"),
        ("device idle after the waits, share of step", lost, "ratio", "attribution"),
        ("waiting calls", ", ".join(operators[:4]), None, "operators"),
    )
    return tuple(
        Evidence(
            quantity=quantity, value=value, unit=unit, window="steps in scope", samples=count,
            source=source,
        )
        for quantity, value, unit, source in listed
    )  # fmt: skip
