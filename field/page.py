"""The page of the suite, build/results/field.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from field.fixes import Fixed
from field.score import Rates, count, find_right, mark_job
from field.truth import Half, Job
from field.watch import Outcome, fingerprint

HALVES: dict[Half, str] = {
    "reserved": "set aside by a random draw, never looked at during development",
    "open": "open to development",
    "known": "known to the rules' authors from the beginning",
}
RATES = {
    "first finding right": "top1",
    "right among the first three": "top3",
    "first finding points at the right line": "place",
    "healthy jobs with a promise over 5 %": "alarm",
    "predicted removal agrees with the measured gain": "removal",
    "the same, of all jobs": "removal_of_all",
}


def render_page(
    jobs: Mapping[str, Job], outcomes: Mapping[str, Outcome], fixed: Mapping[str, Fixed]
) -> str:
    """The whole page, of the jobs that have an outcome, and of those that were fixed."""
    assert set(HALVES) == set(get_args(Half))
    there = [half for half in HALVES if any(jobs[name].half == half for name in outcomes)]
    parts = ["# Field suite", _intro(jobs, outcomes), _summary(jobs, outcomes, there)]
    parts += [_table(half, jobs, outcomes) for half in there]
    parts += [_fixes(jobs, fixed)] if fixed else []
    return "\n\n".join(parts) + "\n"


def _intro(jobs: Mapping[str, Job], outcomes: Mapping[str, Outcome]) -> str:
    measured = [job for job in jobs.values() if job.gain is not None]
    machine = sorted({f"{job.cores} cores, PyTorch {job.torch}" for job in measured})
    older = sum(one.source != fingerprint() for one in outcomes.values())
    lines = [
        "How often is whyidle right on jobs that nobody wrote for it? Each job was written from a "
        "public report of slow training, without a look at the causes that whyidle knows; the gain "
        "of its cured twin was measured before whyidle was run. `python -m field` in the "
        "repository runs them; `field/truth.toml` has the reports' addresses.",
        f"{len(jobs)} jobs, of which {len(outcomes)} have been watched; "
        f"gains measured on {' and '.join(machine) or 'no machine yet'}.",
    ]
    busy = sum(job.method == "thread" for job in measured)
    if busy:
        lines.append(
            f"{busy} of the gains are ratios of the main thread's processor time, measured while "
            "the machine did other work; the others are of wall time."
        )
    if older:
        lines.append(f"{older} outcomes are of another version of the source than this one.")
    return "\n\n".join(lines)


def _summary(
    jobs: Mapping[str, Job], outcomes: Mapping[str, Outcome], halves: Iterable[Half]
) -> str:
    columns = {half: _rates(half, jobs, outcomes) for half in halves}
    lines = [
        f"| | {' | '.join(f'{half}: {HALVES[half]}' for half in columns)} |",
        f"|---|{'--:|' * len(columns)}",
    ]
    for title, key in RATES.items():
        cells = (_rate(getattr(rates, key)) for rates in columns.values())
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _rates(half: Half, jobs: Mapping[str, Job], outcomes: Mapping[str, Outcome]) -> Rates:
    return count(
        mark_job(name, jobs[name], outcome)
        for name, outcome in outcomes.items()
        if jobs[name].half == half
    )


def _rate(hits: tuple[int, int]) -> str:
    return f"{hits[0] / hits[1]:.0%} ({hits[0]} of {hits[1]})" if hits[1] else "–"


def _table(half: Half, jobs: Mapping[str, Job], outcomes: Mapping[str, Outcome]) -> str:
    head = "| job | what is true | measured gain | first finding | right | place | removal told |"
    rows = [
        _row(name, jobs[name], outcome)
        for name, outcome in sorted(outcomes.items())
        if jobs[name].half == half
    ]
    return "\n".join([f"## {half.capitalize()}", "", head, "|---|---|--:|---|---|---|--:|", *rows])


def _row(name: str, job: Job, outcome: Outcome) -> str:
    mark = mark_job(name, job, outcome)
    first = outcome.found[0] if outcome.found else None
    told = (find_right(job, outcome) or first) if not job.healthy else first
    if job.healthy:
        right = "alarm" if mark.alarm else "yes"
    else:
        right = "yes" if mark.top1 else "among three" if mark.top3 else "no"
    cells = [
        name,
        "healthy: " + job.kind if job.healthy else job.kind,
        _gain(job),
        f"`{first.cause}`" if first else outcome.error[:80] or outcome.state,
        right,
        {True: "yes", False: "no", None: "–"}[mark.place],
        "{:.2f} ({:.2f} to {:.2f})".format(*told.removal) if told and told.removal else "–",
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _fixes(jobs: Mapping[str, Job], fixed: Mapping[str, Fixed]) -> str:
    """What automatic fixes gain beside the cure by hand."""
    lines = [
        "## Fixes",
        "",
        "What `whyidle fix` keeps after its trials, each of which compares runs of the job with "
        "and without a fix. A fix is kept only where the whole interval of its speed-up is a "
        "gain. Where the cure is an edit, the report says what to edit.",
        "",
        "| job | kept | step before → after | speed-up | cure by hand | told to edit |",
        "|---|---|--:|--:|--:|---|",
    ]
    for name, one in sorted(fixed.items()):
        kept = ", ".join(f"`{trial.fix}`" for trial in one.kept) or "nothing"
        cells = [name, kept, _steps(one), f"{one.speedup:.2f}" if one.kept else "–"]
        cells += [_gain(jobs[name]), f"`{one.edit[:90]}`" if one.edit else "–"]
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines)


def _steps(fixed: Fixed) -> str:
    ends = [fixed.kept[0].baseline, fixed.kept[-1].treated] if fixed.kept else []
    return " → ".join(f"{1e3 * end:.3g} ms" for end in ends if end is not None) or "–"


def _gain(job: Job) -> str:
    if job.gain is None:
        return "–"
    spread = f" ({job.low:.2f} to {job.high:.2f})" if job.low != job.high else ""
    return f"{job.gain:.2f}{spread}"
