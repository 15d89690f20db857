"""cuDNN searches for convolution algorithms in step after step, or never."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.device import _kernel_savings as savings
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.process_facts import Switches
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role

LEAST_STEPS = 2
"""one search after the warm-up may be its last; two show that it does not end"""
REMAINING = (0.3, 0.0, 0.0)
"""share of the searches that stays (low, expected, high gain): without them cuDNN may choose a
slower algorithm"""
LEAST_BUSY = 0.1
"""least share of the busy time in convolutions for which a search is suggested"""
SEARCHED = (1.0, 1.0, 12.0 / 17.0)
"""time of a convolution with a searched algorithm / time with cuDNN's own choice. The gain is
unknown before a trial and may be zero; the highest is that of speechbrain#294"""


@cause(
    "cuDNN's search for fast algorithms repeats, or is off",
    bucket="compute",
    needs=("device_events", "host_ops", "runtime_calls", "steps"),
)
def cudnn_autotune_mismatch(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    With ``torch.backends.cudnn.benchmark = True``, PyTorch times convolution algorithms at each new
    shape and caches the fastest. Here the shapes keep changing, so the search never ends; or the
    shapes are constant and the search is off.

    Why it costs
    ------------
    A search runs and times each algorithm, which takes many times as long as the convolution.
    Without a search, cuDNN chooses by heuristics and may miss the fastest algorithm.

    How it is detected
    ------------------
    Repeated search: the host waits for the device inside convolutions, which happens only during a
    search, in at least two steps after the warm-up. The prediction replays the recorded steps
    without the kernels, calls and waits of the searches.

    Search is off: the watched process reports that it is off, convolutions take at least a tenth of
    the busy time, and every recorded step has the same shapes. The expected gain is zero, because
    only a trial can measure the effect.

    What looks alike
    ----------------
    Searches in the first steps are warm-up. Workspace allocations are reported as
    ``allocator-thrash``. Jobs that require deterministic algorithms are not told to search.

    What to do
    ----------
    Changing shapes: set ``torch.backends.cudnn.benchmark = False``, or resize images to a few fixed
    sizes and use ``drop_last=True``. Constant shapes: set it to ``True``.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Enable cuDNN auto-tuner"; pytorch/pytorch#2759 (random image
    sizes: 600 to 2340 ms per step, not 23); speechbrain/speechbrain#294 (12 instead of 17 min).
    """
    return _prove_repeated_search(facts) or _prove_switched_off(facts)


def _prove_repeated_search(facts: Facts) -> Proof | None:
    """Prove that shapes change in step after step, so that searches never end."""
    host, waits = facts.timeline.host, facts.waits.search_waits
    if facts.cold_start or not len(waits):
        return None
    operators = [facts.waits.operator_row(int(row)) for row in waits]
    steps, recorded = _count_searching_steps(facts)
    searching = union_of(host.start[operators], host.end[waits])
    gains = _search_gains(facts, waits, searching)
    if steps < LEAST_STEPS or gains[1] < LEAST_SHARE:
        return None
    place = facts.places.place_of(operators[0])
    return Proof(
        headline=f"The search for the fastest algorithms repeats in {steps} of {recorded} steps, "
        "because the shapes of convolutions change",
        low=gains[0],
        high=max(gains),
        predicted=from_gains(gains, "recorded steps replayed without the searches"),
        evidence=(
            make_evidence("steps with a search", steps, None, samples=recorded),
            make_evidence("time in searches, share of step", facts.share_of(searching), "ratio"),
            make_evidence(
                "waits inside convolutions per step", len(waits) / facts.step_count, None
            ),
        ),
        confidence=0.85,
        where=(place,) if place else (),
        facts=DeviceFacts(benchmark=True),
    )


def _count_searching_steps(facts: Facts) -> tuple[int, int]:
    """Steps with a search, and all steps. In a burst all steps count: it follows the warm-up, and
    only its times exclude steps that recording may have lengthened."""
    waits, count = facts.waits.search_waits, facts.step_count
    if facts.timeline.burst is not None:
        waits = facts.waits.in_convolutions(facts.host.rows_of(Role.SYNC))
        count = len(facts.steps)
    begins = facts.timeline.host.start[waits]
    return len(np.unique(np.searchsorted(facts.steps.on_host[0], begins, side="right"))), count


def _search_gains(facts: Facts, waits: I64, searching: Intervals) -> tuple[float, float, float]:
    """Share of the step gained without the launches and waits of searches: low, expected, high."""
    host, calls, replay = facts.timeline.host, facts.launches.call, facts.replay
    rows = np.flatnonzero(calls >= 0)
    rows = rows[searching.contains_times(host.start[calls[rows]])]
    factors, gains = savings.scale_kernels(facts, (rows, REMAINING)), []
    for share, factor in zip(REMAINING, factors, strict=True):
        saved = replay.reduce_host_time(searching, 1.0 - share)
        length = replay.replayed_length(saved, without=waits, factor=factor, fewer=True)
        gains.append(max(0.0, 1.0 - length / replay.base_ns))
    return gains[0], gains[1], gains[2]


def _prove_switched_off(facts: Facts) -> Proof | None:
    """Prove that every step has the same shapes, and the search is off."""
    switches = facts.timeline.process.switches or Switches()
    strict = switches.cudnn_deterministic or switches.deterministic
    if switches.cudnn_benchmark is not False or strict or facts.timeline.info.kind != "cuda":
        return None
    rows = facts.kernels[facts.group[facts.kernels] == "convolution"]
    share = savings.busy_share(facts, rows)
    if share < LEAST_BUSY or not _has_constant_shapes(facts, rows):
        return None
    return savings.make_proof(
        facts,
        rows,
        savings.scale_kernels(facts, (rows, SEARCHED)),
        headline=f"{share:.0%} of the busy time is convolutions with the same shapes in every "
        "step, and cuDNN's search for the fastest algorithms is off",
        method="class figure: best gain of a search in reports; a trial measures it",
        evidence=(savings.share_evidence("convolutions, share of busy time", share, rows),),
        confidence=0.5,
        fix_facts=DeviceFacts(benchmark=False),
    )


def _has_constant_shapes(facts: Facts, rows: I64) -> bool:
    """Whether convolutions have the same recorded shapes in every recorded step."""
    host = facts.timeline.host
    ops = np.unique(facts.launching_op[rows])
    ops = ops[ops >= 0]
    shapes = host.detail[ops]
    steps = np.searchsorted(facts.steps.on_host[0], host.start[ops], side="right")
    sets = [frozenset(shapes[steps == step].tolist()) for step in np.unique(steps)]
    return len(sets) >= LEAST_STEPS and -1 not in sets[0] and len(set(sets)) == 1
