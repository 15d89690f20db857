"""Convolutions whose algorithms are searched for again and again, or never."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.causes.device import _kernel_savings
from whyidle.model.cause import Proof, cause
from whyidle.model.process_facts import Switches
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role

I64 = NDArray[np.int64]

LEAST_SHARE = 0.01
"""share of the step below which searching is not worth a word"""
LEAST_STEPS = 2
"""a search in one step may be the last of the warm-up; in two it is a habit"""
KEPT = (0.3, 0.0, 0.0)
"""what stays of the searches (careful, expected, hopeful): without them a slower algorithm may be
chosen"""
MANY = 0.1
"""share of the busy time from which on convolutions are worth a search"""
FOUND = (1.0, 1.0, 12.0 / 17.0)
"""time of a convolution whose algorithm was searched for by that of the library's own choice:
nothing may be won, and nobody can tell before it is tried; at best as in speechbrain#294"""


@cause(
    "The search for the fastest convolutions does not fit the job",
    bucket="compute",
    needs=("device_events", "host_ops", "runtime_calls", "steps"),
)
def cudnn_autotune_mismatch(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    With ``torch.backends.cudnn.benchmark`` PyTorch times all algorithms of a convolution when it
    meets a new shape, and keeps the fastest. Here shapes are new in step after step, so that it
    never ends; or they are always the same, and nothing was ever timed.

    Why it costs
    ------------
    A search runs each algorithm and waits for it, many times what the convolution takes. Without
    one the library goes by rules of thumb, which may miss the fastest algorithm.

    How it is detected
    ------------------
    Searching: the host waits for the device inside of convolutions, which they never do otherwise,
    in at least two steps behind the warm-up. The gain is the replay of the recorded steps without
    the kernels, the calls and the waits up to the last wait of each such call.

    Never searched: a watched process tells that the switch is off, convolutions are at least a
    tenth of the busy time, and every recorded step has the same shapes. What a search would find
    cannot be foretold: nothing is expected, and a trial tells.

    What looks alike
    ----------------
    Searches of the first steps are warm-up. Allocations that a convolution's work space needs are
    ``allocator-thrash``. Deterministic algorithms leave little to choose from: of a job that asks
    for them it is not said that nothing was searched.

    What to do
    ----------
    New shapes all the time: ``torch.backends.cudnn.benchmark = False``, or a few sizes of images
    for all of them, and ``drop_last=True``. Always the same shapes: switch it on.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Enable cuDNN auto-tuner"; pytorch/pytorch#2759 (steps of
    23 ms became 600 to 2340 ms with images of random size); speechbrain/speechbrain#294 (17 to
    12 min on a V100 with it, shapes fixed).
    """
    return _prove_repeated_search(facts) or _prove_switched_off(facts)


def _prove_repeated_search(facts: Facts) -> Proof | None:
    """Shapes that are new in step after step."""
    host, waits = facts.timeline.host, facts.waits.search_waits
    if facts.cold_start or not len(waits):
        return None
    begin = host.start[[facts.waits.operator_row(int(row)) for row in waits]]
    steps, recorded = _searching_steps(facts)
    spent = union_of(begin, host.end[waits])
    gains = _search_gains(facts, waits, spent)
    if steps < LEAST_STEPS or gains[1] < LEAST_SHARE:
        return None
    return Proof(
        headline=f"In {steps} of {recorded} steps the fastest algorithms are searched for "
        "anew, as convolutions have new shapes",
        low=gains[0],
        high=max(gains),
        predicted=from_gains(gains, "recorded steps replayed without the searches"),
        evidence=(
            make_evidence("steps that search", steps, None, samples=recorded),
            make_evidence("time in searches, share of step", facts.share_of(spent), "ratio"),
            make_evidence(
                "waits inside of convolutions, per step", len(waits) / facts.step_count, None
            ),
        ),
        confidence=0.85,
        where=tuple(
            p for p in [facts.places.place_of(facts.waits.operator_row(int(waits[0])))] if p
        ),
        facts=DeviceFacts(benchmark=True),
    )


def _searching_steps(facts: Facts) -> tuple[int, int]:
    """In how many steps of how many something is searched for. Of a burst all count: it was taken
    behind the warm-up, and only its figures leave out steps that recording may have made longer."""
    host, whole = facts.timeline.host, facts.timeline.burst is not None
    waits = facts.waits.search_waits
    if whole:
        waits = facts.waits.in_convolutions(facts.host.rows_of(Role.SYNC))
    found = np.unique(np.searchsorted(facts.steps.on_host[0], host.start[waits], side="right"))
    return len(found), len(facts.steps) if whole else facts.step_count


def _search_gains(facts: Facts, waits: I64, spent: Intervals) -> tuple[float, float, float]:
    """Careful, expected, hopeful: without what is launched and waited for in the searches."""
    host, calls, replay = facts.timeline.host, facts.launches.call, facts.replay
    rows = np.flatnonzero(calls >= 0)
    rows = rows[spent.contains_times(host.start[calls[rows]])]
    careful, expected, hopeful = _kernel_savings.unit_factors(facts)
    _kernel_savings.scale_times((careful, expected, hopeful), rows, KEPT)
    found = []
    for kept, factor in zip(KEPT, (careful, expected, hopeful), strict=True):
        less = replay.reduce_host_time(spent, 1.0 - kept)
        then = replay.replayed_length(less, without=waits, factor=factor, fewer=True)
        found.append(max(0.0, 1.0 - then / replay.base_ns))
    return found[0], found[1], found[2]


def _prove_switched_off(facts: Facts) -> Proof | None:
    """The same shapes in every step, and the switch is off."""
    switches = facts.timeline.process.switches or Switches()
    off = switches.cudnn_benchmark is False
    strict = switches.cudnn_deterministic or switches.deterministic
    rows = facts.kernels[facts.group[facts.kernels] == "convolution"]
    if (
        not off
        or strict
        or facts.timeline.info.kind != "cuda"
        or not _has_constant_shapes(facts, rows)
    ):
        return None
    share = _kernel_savings.busy_share(facts, rows)
    if share < MANY:
        return None
    factors = _kernel_savings.unit_factors(facts)
    _kernel_savings.scale_times(factors, rows, FOUND)
    return _kernel_savings.make_proof(
        facts,
        rows,
        factors,
        headline=f"{share:.0%} of the busy time is convolutions of the same shapes in every step, "
        "whose fastest algorithms nobody has searched for",
        method="class figure: what a search has found at best; a trial tells",
        evidence=(_kernel_savings.share_evidence("convolutions, share of busy time", share, rows),),
        confidence=0.5,
        told=DeviceFacts(benchmark=False),
    )


def _has_constant_shapes(facts: Facts, rows: I64) -> bool:
    """Whether convolutions have the same shapes in every recorded step, as far as these tell."""
    host = facts.timeline.host
    ops = np.unique(facts.launching_op[rows])
    ops = ops[ops >= 0]
    shapes = host.detail[ops]
    steps = np.searchsorted(facts.steps.on_host[0], host.start[ops], side="right")
    each = [frozenset(shapes[steps == step].tolist()) for step in np.unique(steps)]
    return len(each) >= LEAST_STEPS and -1 not in each[0] and len(set(each)) == 1
