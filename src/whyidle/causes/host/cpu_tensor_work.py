"""Operators of the training loop compute on the CPU while the device waits."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts

REMOVED = (0.5, 0.97, 1.0)
"""share of the CPU work that is saved (low, expected, high); its time on the device is unknown. A
CPU core reads about 10 GB/s, even a small GPU (T4) 320 GB/s"""


@cause(
    "Tensors are computed on the CPU while the GPU waits",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links"),
)
def cpu_tensor_work(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The loop creates or transforms tensors on the CPU while the GPU has nothing to do: random
    numbers, masks, positions, normalisation, augmentation.

    Why it costs
    ------------
    The training thread computes instead of launching kernels. The GPU finishes its queue and is
    idle until the thread is done and the result has been copied.

    How it is detected
    ------------------
    Operators of a launching thread run for at least 50 us without any call of the GPU's runtime,
    while the GPU is idle. Data movement, waits, the DataLoader, library transforms, checkpoints,
    evaluation and compilation do not count. The replay omits half, 97 % or all of it (P4).

    What looks alike
    ----------------
    An operator that processes results of the GPU on the CPU is ``cpu-fallback-op``. Work inside the
    DataLoader is ``heavy-cpu-transform`` or ``dataloader-no-workers``. Kernel launches are
    ``launch-bound-small-kernels``.

    What to do
    ----------
    Create tensors on the device (``torch.randn(..., device=x.device)``), or move the input there
    before the transform. Compute constants before the loop. Do work per sample in loader workers.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Create tensors directly on the target device".
    """
    rows, work = facts.cpu_work
    work = work - facts.replay.waiting
    exposed = facts.share_of(facts.time_of("host") & work)
    if exposed < LEAST_SHARE:
        return None
    replay = facts.replay
    lengths = [replay.replayed_length(replay.reduce_host_time(work, ratio)) for ratio in REMOVED]
    gains = sorted(max(0.0, 1.0 - length / replay.base_ns) for length in lengths)
    names = _longest_operators(facts, rows)
    spent = work.total / 1e9 / max(facts.step_count, 1)
    return Proof(
        headline=f"The CPU computes {' and '.join(names[:2])} for {format_duration(spent)} per "
        f"step, and the {facts.device_noun} waits "
        f"{format_duration(exposed * facts.step_s)} of them",
        low=min(gains[0], exposed),
        high=max(exposed, min(gains[1], 1.0)),
        predicted=from_gains(
            (gains[0], gains[1], gains[2]), "P4: recorded steps replayed without this CPU work"
        ),
        evidence=(
            make_evidence("CPU time of these operators per step", spent, "s", samples=len(rows)),
            make_evidence("device idle meanwhile, share of step", exposed, "ratio"),
            make_evidence("operators", ", ".join(names), None, source="operators"),
        ),
        confidence=0.85,
        where=_places(facts, rows),
        facts=HostFacts(operators=tuple(names)),
    )


def _longest_operators(facts: Facts, rows: I64) -> list[str]:
    host, spent = facts.timeline.host, Counter[str]()
    for row in rows:
        spent[facts.timeline.names[host.name[row]]] += int(host.end[row] - host.start[row])
    return [name for name, _ in spent.most_common(4)]


def _places(facts: Facts, rows: I64) -> tuple[Place, ...]:
    host, spent = facts.timeline.host, Counter[Place]()
    for row in rows[np.argsort(host.start[rows] - host.end[rows])][:200]:
        if place := facts.places.place_of(int(row)):
            spent[place] += int(host.end[row] - host.start[row])
    return tuple(place for place, _ in spent.most_common(MOST_PLACES))
