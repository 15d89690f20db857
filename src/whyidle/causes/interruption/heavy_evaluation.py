"""Evaluation keeps the GPU waiting."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evaluating import Busy
from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains, interruptions, remove
from whyidle.analysis.intervals import union
from whyidle.analysis.pauses import RECORDED, RECORDING, Pauses, pauses
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import InterruptionFacts
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which evaluation is not worth a word"""
RARER = (0.5, 0.1, 0.0)
"""residual when it is done less often: careful, every second time; expected, every tenth; none"""
LARGER = 0.75
"""of what a call of the model costs however much it computes, saved by batches four times as
large"""


@cause(
    "Evaluation keeps training waiting",
    bucket="interruption",
    needs=("device_time", "steps", "pause_marks"),
    watched=("device_marks", "steps", "pause_marks"),
)
def heavy_evaluation(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Training is interrupted by evaluation, and during evaluation the GPU mostly waits: small
    batches, metrics on the CPU, plots, results fetched one by one.

    Why it costs
    ------------
    Nothing is trained meanwhile, and the GPU does not even evaluate.

    How it is detected
    ------------------
    The device is idle while the launching thread is inside a function or a mark of evaluation.
    Only that idle time is counted; work of the device in evaluation is work. Where the device is
    the CPU itself, the whole evaluation counts: nothing is trained meanwhile. Of a watched process
    whose device is known by marks alone, the busy share of its GPU tells how much of evaluations
    it idles, give or take two standard errors, where reads of it differ with them. Without, nobody
    knows: at most all of it, which stands with what is unknown. The recording cannot tell how much
    of the idle time larger batches would remove, so the careful prediction is nothing and the
    hopeful one all of it. Half is expected; of a CPU, which does not idle, what lies between its
    operators in training steps, where those are recorded. What every second or every tenth
    evaluation only would win is P9, where evaluation is seen to recur.

    What looks alike
    ----------------
    A script that only evaluates is not interrupted by it: a function that spans whole steps does
    not count. Checkpoints after an evaluation are ``sync-checkpoint``.

    What to do
    ----------
    Evaluate in larger batches, under ``torch.no_grad``, with metrics on the device; evaluate
    less often or elsewhere where the choice of the model allows it.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Disable gradient calculation for validation or inference".
    """
    found = pauses(facts, Role.EVALUATION)
    if found is None:
        return None
    marked = not facts.on_cpu and not len(facts.device)
    passed = _passed(facts, found) if marked else (found.least, found.share, found.most)
    _, share, high = passed if facts.evaluating is None else _idle(facts, found, facts.evaluating)
    if share < LEAST_SHARE:
        return None
    return Proof(
        headline=_headline(facts, passed[1]),
        low=0.0,
        high=high,
        predicted=remove(0.0, high, "P9: idle time inside evaluation", _saved(facts, share)),
        bucket="unknown" if marked and facts.evaluating is None else None,
        evidence=(
            measured("not trained because of evaluation, share of time", passed[1], "ratio"),
            measured("time spent evaluating", found.seconds, "s", samples=len(found.spans)),
            *_busy(facts, found),
            measured("evaluations", evaluations(facts, found), None, samples=facts.step_count),
        ),
        confidence=0.7 if found.recurring else 0.6,
        where=(found.place,) if found.place else (),
        facts=InterruptionFacts(
            rarer=_rarer(passed) if found.recurring else None,
            without_graph=_without_graph(passed) if _may_record(facts, found) else None,
            batches=_takes_batches(facts, found),
        ),
    )


def _saved(facts: Facts, share: float) -> float:
    """What larger batches are expected to save. A device that idles may do twice as much; a CPU is
    at work, and is spared what lies between its operators, as far as a burst of steps tells."""
    told = facts.burst or facts
    if not facts.on_cpu or "host_ops" not in told.signals:
        return share / 2
    between, work = told.share("host"), told.share("compute")
    return share * LARGER * between / max(between + work, 1e-9)


def _takes_batches(facts: Facts, found: Pauses) -> bool:
    """Whether evaluations ask a loader for batches."""
    asked = (facts.rows_of(role) for role in (Role.BATCH_INLINE, Role.BATCH_FROM_WORKERS))
    begin = facts.timeline.host.start
    return any(bool(found.spans.covers(begin[rows]).any()) for rows in asked)


def _may_record(facts: Facts, found: Pauses) -> bool:
    """Whether they may record what gradients need: a watched process tells where these were off."""
    off, on = (
        bool(np.isin(found.rows, facts.timeline.rows_of(role)).any())
        for role in (Role.EVALUATION_WHOLE, Role.EVALUATION_WITH_GRADIENTS)
    )
    return on or not off


def _without_graph(shares: tuple[float, float, float]) -> Predicted:
    """The step whose evaluations record nothing for a backward pass."""
    low, expected, high = (cost * share for cost, share in zip(RECORDING, shares, strict=True))
    return from_gains((low, expected, high), RECORDED)


def _passed(facts: Facts, found: Pauses) -> tuple[float, float, float]:
    """Share of the time that evaluations take of training: at most all that the host is in them,
    at least what is left when the device has done what it had been given before. Where marks do
    not tell how much that was, at least what it was read to idle; and where a burst tells how long
    steps alone keep it busy, what they leave."""
    told = facts.host.progress
    late = told.late_in(found.spans.start, found.spans.end)
    least, most = facts.share_of(late), facts.share_of(found.spans)
    if facts.evaluating is None or told.ahead_known:
        return least, (least + most) / 2, most
    least = facts.share("evaluation")
    if facts.burst is None or not len(facts.burst.device):
        return least, (least + most) / 2, most
    steps = facts.burst.share_of(facts.burst.part("compute")) * facts.burst.step_s / facts.step_s
    likely = min(least + max(0.0, facts.burst.share("compute") - steps), most)
    return least, likely, min(likely + facts.burst.share("unknown"), most)


def _idle(facts: Facts, found: Pauses, busy: Busy) -> tuple[float, float, float]:
    """Share of the time that the GPU idles in evaluations, by what was read of it beside them."""
    whole, share = facts.share_of(found.spans), facts.share("evaluation")
    doubt = 2 * busy.error * whole
    return max(0.0, share - doubt), share, min(share + doubt, whole)


def _rarer(shares: tuple[float, float, float]) -> Predicted:
    """The step with fewer evaluations; one alone does not tell how often they come."""
    low, expected, high = map(interruptions, shares, RARER)
    return remove(low, high, "P9: evaluations made rarer", expected)


def evaluations(facts: Facts, found: Pauses) -> int:
    """How many there were. Where only functions of single batches are recorded, those of one step
    are one: an evaluation ends where training goes on."""
    host = facts.timeline.host
    single = np.isin(found.rows, facts.timeline.rows_of(Role.EVALUATION_BATCH))
    whole, batches = (
        union(host.start[rows], host.end[rows])
        for rows in (found.rows[~single], found.rows[single])
    )
    begin, end = (edges[facts.chosen] for edges in facts.steps.on_host)
    return len(whole) + int(np.count_nonzero((batches - whole).inside(begin, end)))


def _headline(facts: Facts, share: float) -> str:
    if not len(facts.device):
        return f"Nothing is trained for {share:.0%} of the time, because of evaluation"
    return f"Evaluation leaves the {facts.noun} idle for {share:.0%} of the recording"


def _busy(facts: Facts, found: Pauses) -> tuple[Evidence, ...]:
    """How busy a device of its own is while the host evaluates."""
    read = facts.evaluating
    if read is not None:
        name, value = "GPU busy during evaluation, a line through its reads", read.evaluating
        return (measured(name, value, "ratio", source="telemetry"),)
    if not len(facts.device):
        return ()
    working = union(facts.device.start, facts.device.end) & found.spans
    busy = working.total / max(found.spans.total, 1)
    return (measured("device busy during evaluation", busy, "ratio"),)
