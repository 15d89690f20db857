"""Evaluation keeps the GPU waiting."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.partition.pauses import RECORDED, RECORDING, Pauses, find_pauses
from whyidle.analysis.steps.after_effects import predict_absence
from whyidle.analysis.steps.forecast import from_gains, predict_interruptions, predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import EVALUATIONS, InterruptionFacts
from whyidle.model.roles import Role

RARER = (0.5, 0.1, 0.0)
"""share that remains with fewer evaluations (low, expected, high gain): half, a tenth, none"""
LARGER = 0.75
"""share of the fixed cost of calling the model that four times larger batches save"""


@cause(
    "Evaluation keeps training waiting",
    bucket="interruption",
    needs=("device_time", "steps", "pause_marks"),
    watched=("device_marks", "steps", "pause_marks"),
)
def heavy_evaluation(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Evaluation interrupts training, and the GPU mostly waits during it: small batches, metrics on
    the CPU, plots, results fetched one by one.

    Why it costs
    ------------
    Nothing is trained during evaluation, and the GPU is not even evaluating.

    How it is detected
    ------------------
    The device is idle while the launching thread is inside a function or a mark of evaluation, for
    at least 1 % of the time. On a CPU, the whole evaluation counts. In a watched process without
    recorded kernels, the whole evaluation counts as unknown time.

    The recording cannot show how much idle time larger batches remove: the lower bound is zero, the
    upper bound all of it, and half is expected (on a CPU: the time between operators). Evaluating
    less often is predicted separately (P9).

    What looks alike
    ----------------
    A script that only evaluates is not interrupted: functions that span whole steps do not count.
    Nor does a function whose result the training step needs. For checkpoints, see
    ``sync-checkpoint``.

    What to do
    ----------
    Evaluate in larger batches, under ``torch.no_grad``, with metrics on the device. Evaluate less
    often, or in another process, if model selection allows it.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Disable gradient calculation for validation or inference".
    """
    pauses = find_pauses(facts, Role.EVALUATION)
    if pauses is None:
        return None
    marked = not facts.on_cpu and not len(facts.device)
    passed = _pass_shares(facts, pauses) if marked else (pauses.least, pauses.share, pauses.most)
    _, share, high = passed
    if share < LEAST_SHARE:
        return None
    number, lost = _count_evaluations(facts, pauses), f"{passed[1]:.0%}"
    return Proof(
        headline=f"Evaluation leaves the {facts.device_noun} idle for {lost} of the recording"
        if len(facts.device)
        else f"Evaluation takes {lost} of the run time",
        predicted=predict_removal(
            0.0, high, "P9: idle time inside evaluation", _predict_larger_batches(facts, share)
        ),
        removal=predict_absence(facts, pauses)
        if facts.on_cpu
        else _predict_absence(passed, recurs=pauses.is_recurring),
        bucket="unknown" if marked else None,
        evidence=(
            make_evidence("evaluation, share of time", passed[1], "ratio"),
            make_evidence("time spent evaluating", pauses.total_s, "s", samples=len(pauses.spans)),
            *_busy_evidence(facts, pauses),
            make_evidence(EVALUATIONS, number, None, samples=facts.step_count),
        ),
        confidence=0.7 if pauses.is_recurring else 0.6,
        where=(pauses.place,) if pauses.place else (),
        facts=InterruptionFacts(
            rarer=_predict_rarer(passed) if pauses.is_recurring else None,
            without_graph=_without_graph(facts, pauses, passed),
            batches=_takes_batches(facts, pauses),
        ),
    )


def _predict_absence(shares: tuple[float, float, float], *, recurs: bool) -> Predicted:
    low, share, high = shares if recurs else (0.0, shares[1] / 2, shares[2])
    return predict_removal(low, high, "P9: the steps without evaluations", share)


def _predict_larger_batches(facts: Facts, share: float) -> float:
    """The expected gain of larger batches: half of a device's idle time; on a CPU the time between
    operators, if it was recorded."""
    recorded = facts.burst or facts
    if not facts.on_cpu or "host_ops" not in recorded.signals:
        return share / 2
    between, work = recorded.bucket_share("host"), recorded.bucket_share("compute")
    return share * LARGER * between / max(between + work, 1e-9)


def _takes_batches(facts: Facts, pauses: Pauses) -> bool:
    requests = (facts.rows_of(role) for role in (Role.BATCH_INLINE, Role.BATCH_FROM_WORKERS))
    begin = facts.timeline.host.start
    return any(bool(pauses.spans.contains_times(begin[rows]).any()) for rows in requests)


def _without_graph(
    facts: Facts, pauses: Pauses, shares: tuple[float, float, float]
) -> Predicted | None:
    """The gain where evaluation may record a backward graph; watched jobs mark where it is off."""
    roles = Role.EVALUATION_WHOLE, Role.EVALUATION_WITH_GRADIENTS
    off, on = (bool(np.isin(pauses.rows, facts.timeline.rows_of(role)).any()) for role in roles)
    low, expected, high = (cost * share for cost, share in zip(RECORDING, shares, strict=True))
    return from_gains((low, expected, high), RECORDED) if on or not off else None


def _pass_shares(facts: Facts, pauses: Pauses) -> tuple[float, float, float]:
    """Share of the time that evaluation takes from training (low, expected, high): at most the
    host's time in it, at least the part after the device has finished earlier work."""
    late = facts.host.progress.late_in(pauses.spans.start, pauses.spans.end)
    least, most = facts.share_of(late), facts.share_of(pauses.spans)
    return least, (least + most) / 2, most


def _predict_rarer(shares: tuple[float, float, float]) -> Predicted:
    low, expected, high = map(predict_interruptions, shares, RARER)
    return predict_removal(low, high, "P9: fewer evaluations", expected)


def _count_evaluations(facts: Facts, pauses: Pauses) -> int:
    """Number of evaluations. Where only functions of single batches are recorded, those of one step
    count as one."""
    host, rows = facts.timeline.host, pauses.rows
    single = np.isin(rows, facts.timeline.rows_of(Role.EVALUATION_BATCH))
    whole = union_of(host.start[rows[~single]], host.end[rows[~single]])
    batches = union_of(host.start[rows[single]], host.end[rows[single]])
    begin, end = (edges[facts.steps_in_scope] for edges in facts.steps.on_host)
    return len(whole) + int(np.count_nonzero((batches - whole).length_inside(begin, end)))


def _busy_evidence(facts: Facts, pauses: Pauses) -> tuple[Evidence, ...]:
    if not len(facts.device):
        return ()
    working = union_of(facts.device.start, facts.device.end) & pauses.spans
    busy = working.total / max(pauses.spans.total, 1)
    return (make_evidence("device busy during evaluation", busy, "ratio"),)
