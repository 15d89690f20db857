"""Evaluation keeps the GPU waiting."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evaluation_utilization import EvaluationUtilization
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains, predict_interruptions, predict_removal
from whyidle.analysis.intervals import union_of
from whyidle.analysis.pauses import RECORDED, RECORDING, Pauses, find_pauses
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
    found = find_pauses(facts, Role.EVALUATION)
    if found is None:
        return None
    marked = not facts.on_cpu and not len(facts.device)
    passed = _pass_shares(facts, found) if marked else (found.least, found.share, found.most)
    _, share, high = (
        passed
        if facts.evaluation_utilization is None
        else _idle_shares(facts, found, facts.evaluation_utilization)
    )
    if share < LEAST_SHARE:
        return None
    return Proof(
        headline=_make_headline(facts, passed[1]),
        low=0.0,
        high=high,
        predicted=predict_removal(
            0.0, high, "P9: idle time inside evaluation", _predict_larger_batches(facts, share)
        ),
        bucket="unknown" if marked and facts.evaluation_utilization is None else None,
        evidence=(
            make_evidence("not trained because of evaluation, share of time", passed[1], "ratio"),
            make_evidence("time spent evaluating", found.total_s, "s", samples=len(found.spans)),
            *_busy_evidence(facts, found),
            make_evidence(
                "evaluations", count_evaluations(facts, found), None, samples=facts.step_count
            ),
        ),
        confidence=0.7 if found.is_recurring else 0.6,
        where=(found.place,) if found.place else (),
        facts=InterruptionFacts(
            rarer=_predict_rarer(passed) if found.is_recurring else None,
            without_graph=_without_graph(passed) if _may_record(facts, found) else None,
            batches=_takes_batches(facts, found),
        ),
    )


def _predict_larger_batches(facts: Facts, share: float) -> float:
    """What larger batches are expected to save. A device that idles may do twice as much; a CPU is
    at work, and is spared what lies between its operators, as far as a burst of steps tells."""
    told = facts.burst or facts
    if not facts.on_cpu or "host_ops" not in told.signals:
        return share / 2
    between, work = told.bucket_share("host"), told.bucket_share("compute")
    return share * LARGER * between / max(between + work, 1e-9)


def _takes_batches(facts: Facts, found: Pauses) -> bool:
    """Whether evaluations ask a loader for batches."""
    asked = (facts.rows_of(role) for role in (Role.BATCH_INLINE, Role.BATCH_FROM_WORKERS))
    begin = facts.timeline.host.start
    return any(bool(found.spans.contains_times(begin[rows]).any()) for rows in asked)


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


def _pass_shares(facts: Facts, found: Pauses) -> tuple[float, float, float]:
    """Share of the time that evaluations take of training: at most all that the host is in them,
    at least what is left when the device has done what it had been given before. Where marks do
    not tell how much that was, at least what it was read to idle; and where a burst tells how long
    steps alone keep it busy, what they leave."""
    told = facts.host.progress
    late = told.late_in(found.spans.start, found.spans.end)
    least, most = facts.share_of(late), facts.share_of(found.spans)
    if facts.evaluation_utilization is None or told.ahead_known:
        return least, (least + most) / 2, most
    least = facts.bucket_share("evaluation")
    if facts.burst is None or not len(facts.burst.device):
        return least, (least + most) / 2, most
    steps = facts.burst.share_of(facts.burst.time_of("compute")) * facts.burst.step_s / facts.step_s
    likely = min(least + max(0.0, facts.burst.bucket_share("compute") - steps), most)
    return least, likely, min(likely + facts.burst.bucket_share("unknown"), most)


def _idle_shares(
    facts: Facts, found: Pauses, busy: EvaluationUtilization
) -> tuple[float, float, float]:
    """Share of the time that the GPU idles in evaluations, by what was read of it beside them."""
    whole, share = facts.share_of(found.spans), facts.bucket_share("evaluation")
    doubt = 2 * busy.error * whole
    return max(0.0, share - doubt), share, min(share + doubt, whole)


def _predict_rarer(shares: tuple[float, float, float]) -> Predicted:
    """The step with fewer evaluations; one alone does not tell how often they come."""
    low, expected, high = map(predict_interruptions, shares, RARER)
    return predict_removal(low, high, "P9: evaluations made rarer", expected)


def count_evaluations(facts: Facts, found: Pauses) -> int:
    """How many there were. Where only functions of single batches are recorded, those of one step
    are one: an evaluation ends where training goes on."""
    host = facts.timeline.host
    single = np.isin(found.rows, facts.timeline.rows_of(Role.EVALUATION_BATCH))
    whole, batches = (
        union_of(host.start[rows], host.end[rows])
        for rows in (found.rows[~single], found.rows[single])
    )
    begin, end = (edges[facts.steps_in_scope] for edges in facts.steps.on_host)
    return len(whole) + int(np.count_nonzero((batches - whole).length_inside(begin, end)))


def _make_headline(facts: Facts, share: float) -> str:
    if not len(facts.device):
        return f"Nothing is trained for {share:.0%} of the time, because of evaluation"
    return f"Evaluation leaves the {facts.device_noun} idle for {share:.0%} of the recording"


def _busy_evidence(facts: Facts, found: Pauses) -> tuple[Evidence, ...]:
    """How busy a device of its own is while the host evaluates."""
    read = facts.evaluation_utilization
    if read is not None:
        name, value = "GPU busy during evaluation, a line through its reads", read.evaluating
        return (make_evidence(name, value, "ratio", source="telemetry"),)
    if not len(facts.device):
        return ()
    working = union_of(facts.device.start, facts.device.end) & found.spans
    busy = working.total / max(found.spans.total, 1)
    return (make_evidence("device busy during evaluation", busy, "ratio"),)
