"""Cases are examined, each when it is its turn, and what comes of each is told at once."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from clinic import floor, launch
from clinic.card import Case, Mode
from clinic.examine import examine
from clinic.outcome import Outcome, Results
from clinic.progress import Progress, budget, failed, minutes, told
from clinic.turns import Job, turns, worth
from clinic.verbs import FAILED, UsageError
from clinic.verbs._chosen import chosen, installed
from clinic.verbs._outcomes import Known, loaded, paired, say, write


def run(args: argparse.Namespace) -> int:
    """Examine cases, print the score"""
    jobs, results = chosen(args), Results(args.results)
    _reachable(args)
    if args.mode != "recorded" and importlib.util.find_spec("torch") is None:
        print("clinic: no PyTorch here: nothing was run", file=sys.stderr)
        return 0
    jobs = installed(jobs)
    oracle = not (args.no_oracle or args.fixed_subset)
    known = {} if args.fresh else loaded(jobs, results, oracle)
    left = [(case, mode) for case, mode in jobs if (case.id, mode) not in known]
    begun = None if args.fresh else results
    progress = Progress(
        {(c.id, m): budget(c, m, begun, oracle) * worth(c, args.jobs) for c, m in left}
    )
    print(
        f"{len(jobs)} cases, {len(known)} known, about {minutes(progress.left)} to go", flush=True
    )
    how = {"oracle": oracle, "fresh": args.fresh}
    try:
        with launch.stoppable():
            for case, mode, outcome in _examined(left, args, results, how):
                known[case.id, mode] = outcome
                print(progress.line((case.id, mode), told(case, outcome)), flush=True)
            if args.fixed_subset:
                known |= _once_more(jobs, known, results, how, args.lock)
    except KeyboardInterrupt:
        write(args, paired(jobs, known), results, len(jobs) - len(known))
        raise
    pairs = paired(jobs, known)
    say(args, pairs, results)
    if args.fixed_subset:
        return floor.hold(pairs, progress.spent)
    return FAILED if any(outcome.error for _, outcome in pairs) else 0


def _examined(
    left: Sequence[Job], args: argparse.Namespace, results: Results, how: Mapping[str, Any]
) -> Iterator[tuple[Case, Mode, Outcome]]:
    """Each as it is done. Others may have the lock after each turn."""
    with ThreadPoolExecutor(args.jobs) as pool:
        for turn in turns(left, args.jobs):
            with launch.turn(args.lock):
                asked = {pool.submit(examine, *job, results, **how): job for job in turn}
                for future in as_completed(asked):
                    yield *asked[future], future.result()


def _once_more(
    jobs: Sequence[Job],
    known: Known,
    results: Results,
    how: Mapping[str, Any],
    lock: Path | None,
) -> Known:
    """Cases of the fixed subset that were not right are watched a second time, which counts: a
    check of the project must not fail because the machine was busy for ten seconds."""
    second: Known = {}
    for case, mode in jobs:
        if failed(case, known[case.id, mode]):
            print(f"once more: {case.id}", flush=True)
            with launch.turn(lock):
                again = examine(case, mode, results, **{**how, "fresh": True})
            outcome = second[case.id, mode] = again
            print(told(case, outcome), flush=True)
    return second


def _reachable(args: argparse.Namespace) -> None:
    """Raises UsageError before anything is run, not after two hours."""
    if args.results.exists() and not args.results.is_dir():
        raise UsageError(f"--results {args.results} is not a folder")
    for name, path in (("--lock", args.lock), ("--write", args.write)):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise UsageError(f"{name} {path} is not a file in a folder that exists")
