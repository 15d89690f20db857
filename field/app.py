"""The command line of the field suite."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from field.fixes import FixedJobs, fix_job
from field.measure import measure_job
from field.page import render_page
from field.processes import JobError, find_missing_imports
from field.score import mark_job
from field.truth import (
    HALVES,
    SEED,
    Job,
    TruthError,
    draw_halves,
    find_defects,
    read_truth,
    write_truth,
)
from field.twins import render_twins, watch_twins
from field.watch import Outcome, Outcomes, explain_again, fingerprint, watch_job

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "build" / "field", ROOT / "build" / "results" / "field.md"
FAILED, USAGE, STOPPED = 1, 2, 130
"""exit statuses"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    args = _parser().parse_args(words)
    try:
        return int(args.verb(args))
    except (JobError, TruthError) as error:
        print(f"field: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\nfield: stopped; what is done is kept, the same words go on", file=sys.stderr)
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m field", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    for verb in (list_jobs, measure, run, fix, twins, report, draw):
        one = verbs.add_parser(verb.__name__.removesuffix("_jobs"), help=verb.__doc__)
        one.set_defaults(verb=verb)
        one.add_argument("--half", choices=HALVES)
        one.add_argument("--job", nargs="+", metavar="NAME", help="these only")
        if verb in (measure, run, fix, twins):
            one.add_argument("--python", default=sys.executable, help="interpreter of the jobs")
            one.add_argument("--budget", type=_positive, help="seconds after which no job is begun")
        if verb in (measure, run, fix):
            one.add_argument("--fresh", action="store_true", help="also what is there already")
        if verb is measure:
            one.add_argument("--pairs", type=_positive, help="of runs; default: as the gain needs")
            text = "the machine does other work: count the main thread's seconds"
            one.add_argument("--busy", action="store_true", help=text)
        if verb is run:
            text = "diagnose the kept recordings again instead of running the jobs"
            one.add_argument("--explain", action="store_true", help=text)
        if verb is fix:
            one.add_argument("--trials", type=_positive, default=60, help="seconds for each job")
        if verb in (run, fix, report):
            one.add_argument("--results", type=Path, default=RESULTS, help="folder of outcomes")
        if verb is report:
            one.add_argument("--write", action="store_true", help=f"to {PAGE.relative_to(ROOT)}")
        if verb is draw:
            one.add_argument("--seed", type=int, default=SEED)
    return parser


def list_jobs(args: argparse.Namespace) -> int:
    """List jobs, and what is missing of them."""
    jobs = _choose(args)
    for name, job in jobs.items():
        gain = "healthy" if job.healthy else f"{job.gain:.2f}" if job.gain else "not measured"
        print(f"{name:32} {job.half:9} {gain:>12}  {job.kind}")
    defects = find_defects(jobs)
    print(*defects, sep="\n", file=sys.stderr, end="\n" if defects else "")
    return FAILED if defects else 0


def measure(args: argparse.Namespace) -> int:
    """Time jobs against their cured twins and write the gains into the truth file."""
    jobs, failed = _choose(args), 0
    missing, begun = find_missing_imports(jobs, args.python), time.monotonic()
    for name, job in jobs.items():
        if args.budget and time.monotonic() - begun > args.budget:
            break
        if not _is_to_be_measured(job, args):
            continue
        if missing[name]:
            print(f"{name}: skipped, {', '.join(missing[name])} missing", flush=True)
            continue
        try:
            say = partial(_say, name)
            done = measure_job(job, args.python, args.pairs, say, busy=args.busy)
        except JobError as error:
            _say(name, f"FAILED: {error}")
            failed += 1
            continue
        write_truth({**read_truth(), name: done})
    return FAILED if failed else 0


def _is_to_be_measured(job: Job, args: argparse.Namespace) -> bool:
    if (job.healthy and not job.cured) or (args.busy and job.waits):
        return False
    better = job.method == "thread" and not args.busy
    return job.gain is None or better or bool(args.fresh)


def run(args: argparse.Namespace) -> int:
    """Watch jobs with whyidle and keep what it says; resumes."""
    jobs, outcomes, failed = _choose(args), Outcomes(args.results), 0
    missing = {} if args.explain else find_missing_imports(jobs, args.python)
    begun = time.monotonic()
    for name, job in jobs.items():
        if args.budget and time.monotonic() - begun > args.budget:
            break
        if missing.get(name):
            _say(name, f"skipped, {', '.join(missing[name])} missing")
            continue
        kept = outcomes.load(name)
        if kept and kept.source == fingerprint() and not kept.error and not args.fresh:
            continue
        try:
            if args.explain:
                outcome = explain_again(name, outcomes.store(name))
            else:
                outcome = watch_job(name, job, args.python, outcomes.store(name))
        except JobError as error:
            outcome = Outcome(job=name, source=fingerprint(), error=str(error))
        outcomes.save(outcome)
        failed += bool(outcome.error)
        _say(name, _describe(name, job, outcome))
    return FAILED if failed else 0


def fix(args: argparse.Namespace) -> int:
    """Let whyidle try its fixes on jobs and keep what came of it; resumes."""
    jobs, results, begun = _choose(args), FixedJobs(args.results), time.monotonic()
    missing = find_missing_imports(jobs, args.python)
    for name, job in jobs.items():
        if args.budget and time.monotonic() - begun > args.budget:
            break
        kept = results.load(name)
        if missing[name] or (kept and kept.source == fingerprint() and not args.fresh):
            continue
        fixed = fix_job(name, job, args.python, args.trials)
        results.save(fixed)
        names = ", ".join(trial.fix for trial in fixed.kept) or fixed.error or "nothing kept"
        _say(name, f"{fixed.speedup:.2f}: {names}")
    return 0


def twins(args: argparse.Namespace) -> int:
    """Print the lines of jobs beside those of their cured twins."""
    jobs, failed, begun = _choose(args), 0, time.monotonic()
    missing = find_missing_imports(jobs, args.python)
    for name, job in jobs.items():
        if args.budget and time.monotonic() - begun > args.budget:
            break
        if job.healthy or missing[name]:
            continue
        try:
            print(render_twins(name, watch_twins(job, args.python)), flush=True)
        except JobError as error:
            _say(name, f"FAILED: {error}")
            failed += 1
    return FAILED if failed else 0


def report(args: argparse.Namespace) -> int:
    """Print the page of what is known."""
    jobs, kept = _choose(args), Outcomes(args.results)
    known = {name: one for name in jobs if (one := kept.load(name))}
    results = FixedJobs(args.results)
    fixed = {name: done for name in jobs if (done := results.load(name)) and not done.error}
    page = render_page(jobs, known, fixed)
    if args.write:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page, "utf-8")
    print(page)
    return 0


def draw(args: argparse.Namespace) -> int:
    """Set half of the jobs that are not known aside, by a seeded draw."""
    write_truth(draw_halves(read_truth(), args.seed))
    return 0


def _choose(args: argparse.Namespace) -> dict[str, Job]:
    """The jobs that the options name. Raises TruthError for one that does not exist."""
    jobs = read_truth()
    if unknown := set(args.job or ()) - set(jobs):
        raise TruthError(f"there is no job {', '.join(sorted(unknown))}; `list` names them")
    return {
        name: job
        for name, job in jobs.items()
        if args.half in (None, job.half) and (not args.job or name in args.job)
    }


def _describe(name: str, job: Job, outcome: Outcome) -> str:
    mark = mark_job(name, job, outcome)
    if outcome.error:
        return f"FAILED: {outcome.error}"
    right = not mark.alarm if job.healthy else mark.top1
    first = outcome.found[0].cause if outcome.found else outcome.state
    return f"{'right' if right else 'WRONG'}: {first}"


def _say(name: str, text: str) -> None:
    print(f"{name}: {text}", flush=True)


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number: 1 or more")
    return int(text)
