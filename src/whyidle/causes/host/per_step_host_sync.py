"""The host waits for the device in the middle of every step."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.device.kernel_launches import RECORDING, replay_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._compiled_reads import has_compiled_steps, reads_of_steps
from whyidle.model.cause import HARMLESS, MOST_LOCATED, MOST_PLACES, Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

CAREFUL = 0.8
"""lower bound: a fifth of the gain is lost, because the value is still read later"""


@cause(
    "The CPU waits for the GPU in every step",
    bucket="sync",
    needs=("device_events", "runtime_calls", "launch_links", "steps"),
    watched=("device_time", "own_settings", "steady_steps"),
)
def per_step_host_sync(facts: Facts) -> Proof | None:
    """What it means
    -------------
    ``.item()``, ``.cpu()``, ``print(tensor)``, ``if tensor:``, ``nonzero`` or an explicit
    ``synchronize()`` makes the CPU wait until the GPU has done everything launched so far.

    Why it costs
    ------------
    While the CPU waits, it launches nothing. The GPU finishes its queue and is idle until the CPU
    has filled it again. The wait itself costs nothing; the gap after it does.

    How it is detected
    ------------------
    whyidle finds calls that end when device work ends, and the idle time of the device after them,
    at most as long as the wait. The recorded steps are replayed without these waits (P3: ``T^ =
    max(C, G)`` of CPU time ``C`` and GPU time ``G``).

    In a watched job of JAX, whole compiled steps run beside Python, and the probe records reads
    that wait for their results. Without these reads, a few steps take as long as the longer of host
    and device. On a CPU, both share the cores: the lower bound adds the host's work, divided by the
    number of cores, to that of the device. The expected gain estimates from the CPU time of the
    process how many cores the device needs.

    What looks alike
    ----------------
    A long wait for a busy GPU is harmless if the next work is queued at once. A wait for a copy to
    the device is ``pageable-h2d-copy`` or ``blocking-h2d-copy``, a wait of the allocator
    ``allocator-thrash``, and a wait before work on the CPU ``cpu-fallback-op``. A serving engine
    must read the sampled tokens: ``gaps-between-graphs``.

    What to do
    ----------
    Read scalars every k-th step or one step late. Accumulate metrics on the device. Use
    ``torch.where`` instead of boolean masks.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization";
    lnccbrown/LANfactory#120 (4 % won where 85 % was expected).
    """
    if has_compiled_steps(facts) or facts.on_cpu:
        return reads_of_steps(facts) if has_compiled_steps(facts) else None
    rows = facts.waits.avoidable_waits
    if not len(rows) or (facts.kind is not None and facts.kind.serves):
        return None
    gains = _sync_gains(facts, rows)
    if gains[2] < HARMLESS:
        return None
    host = facts.timeline.host
    lost = facts.bucket_share("sync_refill")
    blocked = float((host.end[rows] - host.start[rows]).sum() / 1e9) / facts.scope_s
    operators = _waiting_operators(facts, rows)
    per_step = len(rows) / facts.step_count
    frequency = f"{per_step:.0f} times" if per_step >= 1.5 else "once"
    plays = facts.timeline.vocabulary.plays
    scalar = bool(operators) and all(plays(Role.SCALAR_OPERATOR, name) for name in operators)
    return Proof(
        headline=f"The CPU waits for the GPU {frequency} per step"
        + (f" in {operators[0]}" if operators else "")
        + ", and then the GPU waits for the CPU",
        low=min(gains[0], max(lost, gains[1])),
        high=max(lost, gains[1]),
        predicted=from_gains(gains, "P3: recorded steps replayed without the waits"),
        evidence=_sync_evidence(facts, len(rows), blocked, lost, operators),
        confidence=0.85,
        where=_sync_places(facts, rows),
        facts=HostFacts(scalar=scalar),
    )


def _sync_gains(facts: Facts, rows: NDArray[np.int64]) -> tuple[float, float, float]:
    """Low, expected and high gain. Recording slows the host down, which can hide or create waits.
    The expected gain excludes this cost if it was measured."""
    replays, gains, expected = [facts.replay], [], []
    usual = 1.0 if facts.kernel_launching.is_cost_measured else 0.0
    if len(facts.rows_of(Role.BATCH_FROM_WORKERS)):
        replays.append(replay_of(facts, patient=True))
    for replay in replays:
        for scale in (0.0, *RECORDING):
            saved = facts.kernel_launching.without_recording(scale)
            present = replay.replayed_length(saved)
            gains.append(max(0.0, 1.0 - replay.replayed_length(saved, without=rows) / present))
            expected += [gains[-1]] if scale == usual else []
    return min(gains) * CAREFUL, sum(expected) / len(expected), max(gains)


def _waiting_operators(facts: Facts, rows: NDArray[np.int64]) -> list[str]:
    """Operators that wait (or runtime calls without an operator), the most frequent first."""
    names, host = facts.timeline.names, facts.timeline.host
    counts = Counter(
        facts.waits.operator_around(int(row)) or names[host.name[row]]
        for row in rows[:MOST_LOCATED]
    )
    return [name for name, _ in counts.most_common()]


def _sync_places(facts: Facts, rows: NDArray[np.int64]) -> tuple[Place, ...]:
    operators = (facts.waits.operator_row(int(row)) for row in rows[:MOST_LOCATED])
    counts = Counter(filter(None, map(facts.places.place_of, operators)))
    return tuple(place for place, _ in counts.most_common(MOST_PLACES))


def _sync_evidence(
    facts: Facts, count: int, blocked: float, lost: float, operators: list[str]
) -> tuple[Evidence, ...]:
    listed = (
        ("waits for the device per step", count / facts.step_count, None, "runtime"),
        ("host blocked, share of step", blocked, "ratio", "runtime"),
        ("device idle after the waits, share of step", lost, "ratio", "attribution"),
        ("waiting calls", ", ".join(operators[:4]), None, "operators"),
    )
    return tuple(make_evidence(*row, samples=count, source=source) for *row, source in listed)
