"""The process holds its device, and nobody trains on it."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.sampled_lines import describe_place, lines_with_share, prompt_waits
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.number_text import format_duration
from whyidle.model.roles import Role

LEAST_SHARE = 0.03
"""share of the time below which it is not worth a word"""
LEAST_NS = 3_000_000_000
"""what nobody waits for is not told of a process that never trained"""
MOSTLY = 0.5
"""a process without any step waits for somebody if it waits for most of its life"""
SURE = 0.8
"""of a process whose framework is used in ways that no step shows, waiting may be its work"""


@cause(
    "The process holds its device and does not train",
    bucket="interruption",
    needs=("own_process",),
    direct=True,
)
def interactive_or_unreleased(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The process is alive and the framework is loaded, but for a long time it only waits: at a
    prompt, in a notebook's idle kernel, in a debugger, in a sleep after the last step.

    Why it costs
    ------------
    Its device, and its cores and memory, are taken for as long as it lives.

    How it is detected
    ------------------
    After the last recorded call of the training loop, four fifths and more of the looks at the
    training thread found it waiting; or it waited in the code of a debugger, a prompt or a
    notebook; or it never trained and waited for most of its life. Where the wait after the last
    step is more than half of what was recorded, shares are of the whole recording; where it is
    less, it is a remark. The prediction is the time for which the device would be free: no step
    becomes faster.

    What looks alike
    ----------------
    Evaluating, saving and exporting after training are work. Waiting in the loop for a network or a
    file is ``blocking-logging-upload``, for data it is the loader. A server waits for requests by
    design.

    What to do
    ----------
    End the process after the last save; shut idle kernels down after some minutes; explore and
    debug on a machine without the GPU.

    References
    ----------
    Gao et al., ICSE 2024 (interactive 2.1 %, unreleased 1.3 %, no deep learning 0.6 % of issues).
    """
    if facts.has_no_steps:
        return _prove_never_trained(facts)
    phases = facts.timeline.phases
    asking = prompt_waits(facts) & facts.time_of("blocked")
    asked = facts.share_of(asking)
    after, share = phases.after_s or 0.0, facts.bucket_share("after")
    if asked > max(share, LEAST_SHARE):
        return _make_proof(facts, "It waits at a prompt or a debugger", asking, asked, ())
    if not after or after < LEAST_SHARE * (phases.life_s or after):
        return None
    headline = (
        f"The process waits for {format_duration(after)} after its last step, and holds its device"
    )
    evidence = (make_evidence("after the last step", after, "s", source="clock"),)
    return _make_proof(facts, headline, facts.partition.parts["after"], share, evidence)


def _prove_never_trained(facts: Facts) -> Proof | None:
    """A process that never trained."""
    waited = _waiting_time(facts)
    share = facts.share_of(waited)
    if share < MOSTLY or waited.total < LEAST_NS:
        return None
    return _make_proof(
        facts, f"The process never trains, and waits {share:.0%} of the time", waited, share, ()
    )


def _make_proof(
    facts: Facts, headline: str, spans: Intervals, share: float, more: tuple[Evidence, ...]
) -> Proof:
    found = lines_with_share(facts, spans)
    at = f", {describe_place(found[0][0])}" if found else ""
    return Proof(
        headline=f"{headline}{at}",
        low=SURE * share,
        high=share,
        predicted=predict_removal(
            SURE * share, share, "the time for which its device would be free"
        ),
        evidence=(
            make_evidence(
                "training thread waiting, share of the time", share, "ratio", source="samples"
            ),
            *more,
        ),
        confidence=0.9 if found else 0.6,
        where=tuple(place for place, _ in found[:3]),
        bucket="unknown" if facts.has_no_steps else None,
    )


def _waiting_time(facts: Facts) -> Intervals:
    host = facts.timeline.host
    rows = facts.timeline.rows_of(Role.BLOCKED)
    return union_of(host.start[rows], host.end[rows])
