"""Each step does work that training does not need."""

from __future__ import annotations

from collections import Counter

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.reporting_work import ReportingWork, find_reporting_work
from whyidle.analysis.lines.step_by_line import find_passes
from whyidle.analysis.sampling.share_error import share_bounds, share_evidence
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import NOTICEABLE, Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts
from whyidle.model.purposes import MEANINGS, TRAINING, Purpose


@cause(
    "Each step does work that training does not need",
    bucket="host",
    needs=("own_settings", "steady_steps", "python_stacks"),
)
def work_beside_training(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Every step makes metrics, norms, pictures, progress bars or logs that training does not use.

    Why it costs
    ------------
    The training loop is a single thread: the next step begins when the report is done.

    How it is detected
    ------------------
    In a watched job on the CPU, stack samples give the time at each of the user's lines. The stored
    source shows which lines of the training loop lead to the loss, the backward pass or the update,
    through assignments, changed objects and conditions. All other lines, and what they call, are
    work beside the training. If only the name of a library shows the purpose (a tracker, a metrics
    library), the name decides. The report counts this work from 3 % of the step, after subtraction
    of the sampling error. The gain is the step without it. On a GPU, the device may hide it: see
    ``python-overhead-in-step`` and ``per-step-host-sync``.

    What looks alike
    ----------------
    A custom loss, gradient clipping, averaged weights, a teacher model, a second network, an
    environment and a replay buffer affect the loss or the weights: they are training. So is a call
    whose effect the source does not show. Reports that wait for a network or a disk, or are encoded
    by a writer, are ``blocking-logging-upload``. Steps that grow are ``growing-step``.

    What to do
    ----------
    Do it in every 50th or 100th step, or at the end of an epoch. Update metrics as you go. Read
    many numbers in one transfer, and norms of many tensors in one call.

    References
    ----------
    PyTorch, Performance Tuning Guide; Lightning, "Logging", ``log_every_n_steps``.
    """
    work = find_reporting_work(facts) if facts.on_cpu else None
    if work is None or not work.lines:
        return None
    share = work.time / max(facts.scope.total, 1)
    least, most = share_bounds(facts, work.spans, find_passes(facts))
    if min(share, least) < NOTICEABLE:
        return None
    first, where = work.lines[0], work.places
    seconds = format_duration(share * facts.step_s)
    return Proof(
        headline=f"{seconds} of each step are spent on "
        f"{_describe_work(work)}{_describe_spot(where)}, "
        "which training does not need",
        predicted=from_gains((least, share, most), "the step without these lines"),
        evidence=(
            share_evidence(facts, "work beside the training, share of step", share),
            make_evidence("step time", facts.step_s, "s", samples=facts.step_count, source="steps"),
        ),
        confidence=0.85,
        where=where,
        bucket=work.bucket,
        facts=HostFacts(purpose=first.purpose.value, text=work.text, reporting=True),
    )


def _describe_work(work: ReportingWork) -> str:
    """Name the two purposes that take most time."""
    spent: Counter[Purpose] = Counter()
    for line in work.lines:
        spent[line.purpose] += line.time if line.purpose not in TRAINING else 0
    names = [MEANINGS[purpose] for purpose, time in spent.most_common(2) if time > work.time / 5]
    return " and ".join(names) or "other lines"


def _describe_spot(where: tuple[Place, ...]) -> str:
    place = where[0] if where else None
    return f" ({(place.file or '').rpartition('/')[2]}:{place.line})" if place else ""
