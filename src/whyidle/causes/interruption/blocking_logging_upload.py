"""The training loop waits for its own reports."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_interruptions, predict_removal
from whyidle.analysis.intervals import union_of
from whyidle.analysis.pauses import Pauses, find_pauses
from whyidle.analysis.sampled_lines import busiest_lines, prompt_waits
from whyidle.analysis.sampling.share_error import sample_count, share_bounds
from whyidle.analysis.source_places import at_place
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import InterruptionFacts
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which logging is not worth a word"""
LEAST_BLOCKED = 0.03
"""a thread that waits for less than this may just have lost its processor"""
EVERY_FIFTIETH = 0.02
"""residual when what was reported in every step is reported in every fiftieth, which is what
Lightning does if not told otherwise (``Trainer(log_every_n_steps=50)``)"""
LEFT_AT_WORST = 0.5
"""residual at the careful end: a background thread still competes for the interpreter"""


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
    Encoding and sending happen on the thread that should launch the GPU's next work.

    How it is detected
    ------------------
    The device is idle while the launching thread is inside a known tracker, writer, plotting
    library or network client, outside the DataLoader. Reports in several steps can be thinned
    (P9); a single one does not tell how often it comes, so its careful prediction is nothing.

    On a watched process: the training thread was not runnable between the recorded calls, and the
    kernel, asked at looks, did not find it awake; so it waited in a call for a network, a file or a
    clock, and stack samples name the line. An operator of a CPU job of one process waits only for
    threads of its own, and is none of these. Python inside a
    library's call that mostly waits goes with it. The interval holds the sampling error of that
    share.

    What looks alike
    ----------------
    A request inside the DataLoader fetches data. Reading the loss back for a log is
    ``per-step-host-sync``; printing is Python overhead.

    What to do
    ----------
    Report less often, and from a background thread or process; turn off histograms of parameters
    and gradients.

    References
    ----------
    wandb issue 3701 ("watch" slows training as the run goes on); Gao et al., "An
    Empirical Study on Low GPU Utilization of Deep Learning Jobs", ICSE 2024.
    """
    if facts.bucket_share("blocked") > facts.bucket_share("logging"):
        return _prove_blocked(facts)
    found = find_pauses(facts, Role.LOGGING)
    if found is None or found.share < LEAST_SHARE:
        return None
    often = max(found.steps_hit, 1) / max(facts.step_count, 1)
    high = predict_interruptions(found.share, min(EVERY_FIFTIETH / often, LEFT_AT_WORST))
    low = predict_interruptions(found.least, LEFT_AT_WORST) if found.is_recurring else 0.0
    return Proof(
        headline=f"Logging holds the training loop for {found.share:.0%} of the step",
        low=low,
        high=found.most,
        predicted=predict_removal(
            low, found.most, "P9: reports thinned or in the background", high
        ),
        evidence=(
            make_evidence("device idle while logging, share of step", found.share, "ratio"),
            make_evidence("time spent logging", found.total_s, "s", samples=len(found.spans)),
            make_evidence(_describe_count(found), found.steps_hit, None, samples=facts.step_count),
            make_evidence("longest pause", found.longest_s, "s"),
        ),
        confidence=0.85 if found.is_recurring else 0.6,
        where=(found.place,) if found.place else (),
        facts=InterruptionFacts(
            tracker=_known_tracker(facts, found),
            mlflow=_is_mostly_in(facts, found, Role.TRACKER_SERVER),
            plot=_makes_plots(facts, found),
            histograms=_is_mostly_in(facts, found, Role.HISTOGRAM),
            beside=predict_removal(low, found.most, "P9: encoded by a thread beside the training"),
        ),
    )


def _describe_count(found: Pauses) -> str:
    """What the count of steps is of: looks see only some of those that log."""
    return "steps seen to log, at least" if found.looked else "steps with logging"


def _is_mostly_in(facts: Facts, found: Pauses, role: Role) -> bool:
    """Whether most of it lies in calls of a role."""
    host = facts.timeline.host
    rows = np.intersect1d(found.rows, facts.timeline.rows_of(role))
    return union_of(host.start[rows], host.end[rows]).total > found.spans.total / 2


def _known_tracker(facts: Facts, found: Pauses) -> bool:
    """Whether it is one whose calls can be made beside the training."""
    return bool(np.isin(found.rows, facts.timeline.rows_of(Role.TRACKER)).any())


def _makes_plots(facts: Facts, found: Pauses) -> bool:
    """Whether all of it makes pictures."""
    return bool(np.isin(found.rows, facts.timeline.rows_of(Role.PLOT)).all())


def _prove_blocked(facts: Facts) -> Proof | None:
    """Waits of a watched process in calls that no tracker is known for."""
    waits = facts.time_of("blocked") - prompt_waits(facts)  # somebody's pause is no upload
    share = facts.share_of(waits)
    if share < LEAST_BLOCKED:
        return None
    where = busiest_lines(facts, waits)
    least, most = share_bounds(facts, waits)
    low = predict_interruptions(least, LEFT_AT_WORST)
    at = at_place(where)
    return Proof(
        headline=f"A blocking call{at} holds the training loop for {share:.0%} of the step",
        low=low,
        high=most,
        predicted=predict_removal(
            low,
            most,
            "P9: made rarer or in the background",
            predict_interruptions(share, EVERY_FIFTIETH),
        ),
        evidence=(
            make_evidence(
                "training thread blocked, share of step",
                share,
                "ratio",
                samples=sample_count(facts),
                source="samples",
            ),
        ),
        confidence=0.8 if where else 0.5,
        where=where,
    )
