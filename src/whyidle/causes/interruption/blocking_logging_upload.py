"""The training loop waits for its own reports."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.log_preparation import find_log_preparation
from whyidle.analysis.lines.sampled_lines import busiest_lines, framework_waits, prompt_waits
from whyidle.analysis.lines.source_lines import at_place
from whyidle.analysis.partition.pauses import Pauses, find_pauses
from whyidle.analysis.sampling.share_error import share_bounds, share_evidence
from whyidle.analysis.steps.after_effects import predict_absence
from whyidle.analysis.steps.forecast import predict_interruptions, predict_removal
from whyidle.model.cause import LEAST_SHARE, LEFT_AT_WORST, Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.proof_facts import InterruptionFacts
from whyidle.model.roles import Role

LEAST_BLOCKED = 0.03
"""a thread that waits less may just have lost its core"""
EVERY_FIFTIETH = 0.02
"""share that remains when every fiftieth step is reported instead of each, as in Lightning by
default (``Trainer(log_every_n_steps=50)``)"""


@cause(
    "The training loop waits for logging or uploads",
    bucket="interruption",
    needs=("device_time", "steps", "pause_marks"),
    watched=("device_marks", "steps", "pause_marks"),
)
def blocking_logging_upload(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A tracker's client, a summary writer, a plot or a network request runs in the training loop.

    Why it costs
    ------------
    The thread that encodes and sends should launch the GPU's next work instead.

    How it is detected
    ------------------
    Trace: the device is idle while the launching thread is inside a known tracker, writer, plotting
    library or network client, for at least 1 % of the step. The DataLoader does not count. The
    limit of the gain includes work for the log at the same line, or in a function that only logs.
    The prediction assumes fewer reports, or reports in the background (P9). For a single report the
    lower bound is zero, because its frequency is unknown.

    Watched process: the training thread sleeps between the recorded calls, so it waits for a
    network, a file or a clock. Stack samples name the line. Waits inside operators, JAX, TensorFlow
    or Keras do not count. The interval includes the sampling error.

    What looks alike
    ----------------
    A request inside the DataLoader fetches data. Reading the loss in order to log it is reported as
    ``per-step-host-sync``; printing it is reported as ``python-overhead-in-step``.

    What to do
    ----------
    Report less often, or from a background thread. Turn off histograms of parameters and gradients.

    References
    ----------
    wandb issue 3701 ("watch" slows training as the run goes on); Gao et al., "An Empirical Study on
    Low GPU Utilization of Deep Learning Jobs", ICSE 2024.
    """
    if facts.bucket_share("blocked") > facts.bucket_share("logging"):
        return _prove_blocked(facts)
    pauses = find_pauses(facts, Role.LOGGING)
    if pauses is None or pauses.share < LEAST_SHARE:
        return None
    frequency = max(pauses.steps_hit, 1) / max(facts.step_count, 1)
    high = predict_interruptions(pauses.share, min(EVERY_FIFTIETH / frequency, LEFT_AT_WORST))
    low = predict_interruptions(pauses.least, LEFT_AT_WORST) if pauses.is_recurring else 0.0
    preparation = find_log_preparation(facts)
    return Proof(
        headline=f"Logging holds up the training loop for {pauses.share:.0%} of the step",
        predicted=predict_removal(low, pauses.most, "P9: fewer reports or in the background", high),
        removal=predict_absence(facts, pauses, preparation),
        evidence=(
            make_evidence("device idle while logging, share of step", pauses.share, "ratio"),
            make_evidence("time spent logging", pauses.total_s, "s", samples=len(pauses.spans)),
            make_evidence(
                "sampled steps with logging" if pauses.looked else "steps with logging",
                pauses.steps_hit,
                None,
                samples=facts.step_count,
            ),
            make_evidence("longest pause", pauses.longest_s, "s"),
            *_preparation_evidence(facts, preparation),
        ),
        confidence=0.85 if pauses.is_recurring else 0.6,
        where=(pauses.place,) if pauses.place else (),
        facts=InterruptionFacts(
            tracker=bool(np.isin(pauses.rows, facts.timeline.rows_of(Role.TRACKER)).any()),
            mlflow=_is_mostly_in(facts, pauses, Role.TRACKER_SERVER),
            plot=bool(np.isin(pauses.rows, facts.timeline.rows_of(Role.PLOT)).all()),
            histograms=_is_mostly_in(facts, pauses, Role.HISTOGRAM),
            beside=predict_removal(low, pauses.most, "P9: encoded by a background thread"),
        ),
    )


def _preparation_evidence(facts: Facts, preparation: Intervals) -> tuple[Evidence, ...]:
    if not preparation:
        return ()
    name = "computed for the log before its call, share of step"
    return (make_evidence(name, facts.share_of(preparation), "ratio", source="samples"),)


def _is_mostly_in(facts: Facts, pauses: Pauses, role: Role) -> bool:
    host = facts.timeline.host
    rows = np.intersect1d(pauses.rows, facts.timeline.rows_of(role))
    return union_of(host.start[rows], host.end[rows]).total > pauses.spans.total / 2


def _prove_blocked(facts: Facts) -> Proof | None:
    others = prompt_waits(facts) | framework_waits(facts)  # neither of them is an upload
    waits = facts.time_of("blocked") - others
    share = facts.share_of(waits)
    if share < LEAST_BLOCKED:
        return None
    where = busiest_lines(facts, waits)
    least, most = share_bounds(facts, waits)
    low = predict_interruptions(least, LEFT_AT_WORST)
    usual = predict_interruptions(share, EVERY_FIFTIETH)
    return Proof(
        headline=f"A blocking call{at_place(where)} holds up the training loop for {share:.0%} of "
        "the step",
        predicted=predict_removal(low, most, "P9: less often or in the background", usual),
        removal=predict_removal(least, most, "P9: the step without them", share),
        evidence=(share_evidence(facts, "training thread blocked, share of step", share),),
        confidence=0.8 if where else 0.5,
        where=where,
    )
