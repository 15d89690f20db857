"""The process holds its device without training."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.sampled_lines import describe_place, lines_with_share, prompt_waits
from whyidle.analysis.sampling.startup_and_tail import LEAST_NS
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import MOSTLY, NOTICEABLE, Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.number_text import format_duration
from whyidle.model.roles import Role

SURE = 0.8
"""lower bound: idle share of the waiting; a process without steps may wait by design"""


@cause(
    "The process holds its device and does not train",
    bucket="interruption",
    needs=("own_process",),
    direct=True,
)
def interactive_or_unreleased(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The process has loaded the framework but only waits for a long time: at a prompt, in an idle
    notebook kernel, in a debugger, or in a sleep after the last step.

    Why it costs
    ------------
    Its device, cores and memory remain allocated as long as it lives.

    How it is detected
    ------------------
    Stack samples show that the training thread waits after its last training call (in at least four
    fifths of the samples), or in the code of a debugger, a prompt or a notebook. Or the process
    never trained, waited for more than half of its life, and did not end with an error. If the wait
    after the last step is shorter than half of the recording, the finding is only a note. The
    predicted gain is the time for which the device would be free.

    What looks alike
    ----------------
    Evaluating, saving and exporting after training are work. Waiting for a network or a file in the
    loop is reported as ``blocking-logging-upload``. A server waits for requests by design.

    What to do
    ----------
    End the process after the last save, shut down idle notebook kernels after some minutes, and
    explore and debug on a machine without a GPU.

    References
    ----------
    Gao et al., ICSE 2024 (interactive 2.1 %, unreleased 1.3 %, no deep learning 0.6 % of issues).
    """
    if facts.has_no_steps:
        return _prove_never_trained(facts)
    phases = facts.timeline.phases
    prompts = prompt_waits(facts) & facts.time_of("blocked")
    prompted = facts.share_of(prompts)
    after, share = phases.after_s or 0.0, facts.bucket_share("after")
    if prompted > max(share, NOTICEABLE):
        return _make_proof(facts, "The process waits at a prompt or debugger", prompts, prompted)
    if not after or after < NOTICEABLE * (phases.life_s or after):
        return None
    headline = (
        f"The process waits for {format_duration(after)} after its last step while holding its "
        f"device"
    )
    evidence = (make_evidence("time after the last step", after, "s", source="clock"),)
    return _make_proof(facts, headline, facts.partition.parts["after"], share, evidence)


def _prove_never_trained(facts: Facts) -> Proof | None:
    if facts.timeline.process.failure:
        return None
    host = facts.timeline.host
    rows = facts.timeline.rows_of(Role.BLOCKED)
    waiting = union_of(host.start[rows], host.end[rows])
    share = facts.share_of(waiting)
    if share < MOSTLY or waiting.total < LEAST_NS:
        return None
    headline = f"The process does not train, and waits {share:.0%} of the time"
    return _make_proof(facts, headline, waiting, share)


def _make_proof(
    facts: Facts, headline: str, spans: Intervals, share: float, more: tuple[Evidence, ...] = ()
) -> Proof:
    lines, waiting = lines_with_share(facts, spans), "training thread waiting, share of the time"
    at = f", {describe_place(lines[0][0])}" if lines else ""
    return Proof(
        headline=f"{headline}{at}",
        predicted=predict_removal(SURE * share, share, "the time for which its device is free"),
        evidence=(make_evidence(waiting, share, "ratio", source="samples"), *more),
        confidence=0.9 if lines else 0.6,
        where=tuple(place for place, _ in lines[:3]),
        bucket="unknown" if facts.has_no_steps else None,
    )
