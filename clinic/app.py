"""The command line: what there is, whether it works, what comes of it, and the page of it."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, get_args

import msgspec

from clinic import floor, guard, launch
from clinic.card import Case, Mode, cases
from clinic.examine import examine
from clinic.healed import rows, score
from clinic.healing import heal
from clinic.outcome import Outcome, Results
from clinic.picture import matrix
from clinic.progress import Progress, budget, failed, minutes, told
from clinic.report import judged, page
from clinic.score import Pair, marks
from clinic.turns import Job, at_once, turns, worth

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build" / "clinic"
PAGE = ROOT / "docs" / "results" / "clinic.md"
MODES: tuple[Mode, ...] = get_args(Mode)
WHOLE: tuple[Mode, ...] = ("cpu", "emulated", "recorded")
"""what ``--mode all`` is: whatever needs no GPU"""
FAILED, USAGE, STOPPED = 1, 2, 130
Known = dict[tuple[str, Mode], Outcome]
"""by case and mode"""


class UsageError(Exception):
    """What was asked for cannot be done."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    args = _parser().parse_args(words)
    try:
        return int(args.verb(args))
    except UsageError as error:
        print(f"clinic: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\nclinic: stopped; what is done is kept, the same words go on", file=sys.stderr)
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clinic", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    every = {"list": listed, "try": tried, "guard": guarded, "run": run, "report": report}
    for name, verb in (*every.items(), ("heal", healed)):
        one = verbs.add_parser(name, help=verb.__doc__)
        one.set_defaults(verb=verb)
        one.add_argument("--mode", choices=(*MODES, "all"), default="cpu")
        one.add_argument(
            "--cases", nargs="+", metavar="ID", help="these only; c012 means all of it"
        )
        one.add_argument("--reseed", type=int, metavar="N", help="draw other seeds and severities")
        one.add_argument("--fixed-subset", action="store_true", help="those of floor.toml")
        if name == "heal":
            one.add_argument("--budget", type=_some, default=60, help="seconds of each fix")
            one.add_argument("--lock", type=Path, help="a file that timed jobs hold in turn")
        if name in ("run", "report", "heal"):
            one.add_argument("--results", type=Path, default=RESULTS, help="folder of outcomes")
            one.add_argument("--write", type=Path, nargs="?", const=PAGE, help=f"to {PAGE.name}")
        if name in ("run", "report"):
            one.add_argument("--no-oracle", action="store_true", help="do not time the cures")
        if name == "report":
            one.add_argument("--any-version", action="store_true", help="of the product")
        if name == "run":
            said = f"emulated cases at once, {at_once()} here; others always run alone"
            one.add_argument("--jobs", type=_some, default=at_once(), help=said)
            one.add_argument("--fresh", action="store_true", help="also what is there already")
            one.add_argument("--lock", type=Path, help="a file that timed jobs hold in turn")
    return parser


def _some(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of jobs: 1 or more")
    return int(text)


def chosen(args: argparse.Namespace) -> list[Job]:
    """The cases that the options name. Raises UsageError for one that does not exist."""
    try:
        every = cases(args.reseed)
    except ValueError as error:
        raise UsageError(f"a card makes no sense: {error}") from error
    modes = _modes(args.mode)
    jobs = [(case, mode) for mode in modes for case in every if mode in case.modes]
    if not jobs:
        raise UsageError(f"there is no case of mode {args.mode} yet")
    asked = args.cases or (floor.read().cases if args.fixed_subset else None)
    if asked is None:
        return jobs
    for name in asked:
        if not any(case.id.startswith(name) for case, _ in jobs):
            raise UsageError(_nothing(name, args.mode, every))
    return [(case, mode) for case, mode in jobs if any(map(case.id.startswith, asked))]


def _modes(asked: str) -> list[Mode]:
    """All is what this machine has: recordings of other people are not everywhere."""
    if asked != "all":
        return [mode for mode in MODES if mode == asked]
    if launch.recordings().is_dir():
        return list(WHOLE)
    print("clinic: WHYIDLE_TRACES names no folder: recordings are left out", file=sys.stderr)
    return [mode for mode in WHOLE if mode != "recorded"]


def _nothing(name: str, mode: str, every: Sequence[Case]) -> str:
    """Why no case of a mode begins like that."""
    others = sorted({other for case in every if case.id.startswith(name) for other in case.modes})
    if others:
        return f"{name} is not of mode {mode}; try --mode {others[0]}"
    return f"no case begins with {name!r}: `python -m clinic list --mode all` tells what there is"


def listed(args: argparse.Namespace) -> int:
    """What cases there are"""
    for case, _ in chosen(args):
        truth = " + ".join(fault.cause or fault.locus for fault in case.inject)
        print(f"{case.id}  {case.kind:8} {case.level:7} {case.workload:10} {truth}")
    return 0


def tried(args: argparse.Namespace) -> int:
    """1 second of every arm alone: does it work, how long are its steps"""
    status = 0
    for case, mode in _alone(args):
        brief = msgspec.structs.replace(case.budget, arm_s=1.0)
        case = msgspec.structs.replace(case, budget=brief)  # noqa: PLW2901
        for name, cured in case.arms().items():
            options = {**case.arm(cured), **({case.onset: 0.0} if case.onset else {})}
            try:
                times = launch.alone(case, options, mode)
                start, count = times.marks[0] - times.begin, len(times.marks)
                each = (times.marks[-1] - times.marks[0]) / max(count - 1, 1)
                said = f"{each * 1e3:8.1f} ms a step, {count} steps, first after {start:.1f} s"
            except launch.JobError as error:
                status, said = FAILED, f"failed: {error}"
            print(f"{case.id} {case.workload:8} {name:8} {said}", flush=True)
    return status


def guarded(args: argparse.Namespace) -> int:
    """The same steps sick and cured: does a cure change the numbers no more than it may"""
    status = 0
    for case, mode in _alone(args):
        try:
            good, said = guard.held(case, mode)
        except launch.JobError as error:
            good, said = False, f"failed: {error}"
        status = status if good else FAILED
        print(f"{'+' if good else '-'} {case.id} {case.workload:8} {said}", flush=True)
    return status


def _alone(args: argparse.Namespace) -> list[Job]:
    """Those that are started here, not recorded elsewhere."""
    if importlib.util.find_spec("torch") is None:
        raise UsageError("there is no PyTorch here")
    return [(case, mode) for case, mode in chosen(args) if not case.recording]


def run(args: argparse.Namespace) -> int:
    """Examine cases, print the score"""
    jobs, results = chosen(args), Results(args.results)
    _reachable(args)
    if args.mode != "recorded" and importlib.util.find_spec("torch") is None:
        print("clinic: no PyTorch here: nothing was run", file=sys.stderr)
        return 0
    oracle = not (args.no_oracle or args.fixed_subset)
    known = {} if args.fresh else _known(jobs, results, oracle)
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
        _write(args, _pairs(jobs, known), results, len(jobs) - len(known))
        raise
    pairs = _pairs(jobs, known)
    _say(args, pairs, results)
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


def healed(args: argparse.Namespace) -> int:
    """Fix cases, print how far that heals them"""
    jobs, results = _alone(args), Results(args.results)
    found = []
    for number, (case, mode) in enumerate(jobs, 1):
        one = heal(case, mode, results, float(args.budget), args.lock)
        found.append(one)
        kept = ", ".join(trial.treatment for trial in one.tried if trial.kept)
        said = f"x{one.gain:.2f}" if one.gain else one.error[-120:]
        oracle = f" of x{one.oracle:.2f}" if one.oracle else ""
        print(f"[{number}/{len(jobs)}] {case.id} {said}{oracle} {kept}", flush=True)
    text = "\n".join([*score(found), "", *rows(found)])
    print(text)
    if args.write:
        args.write.write_text(f"{text}\n", encoding="utf-8")
    return FAILED if any(one.error for one in found) else 0


def report(args: argparse.Namespace) -> int:
    """Print the score of what is known"""
    jobs, results = chosen(args), Results(args.results)
    known = _known(jobs, results, False)
    if not (args.no_oracle or args.fixed_subset):
        known |= _known(jobs, results, True)  # where cures were timed, with that
    if args.any_version:
        latest = {(case.id, mode): results.latest(case, mode) for case, mode in jobs}
        known = {key: outcome for key, outcome in latest.items() if outcome} | known
    missing = len(jobs) - len(known)
    if missing:
        print(f"clinic: {missing} cases have no outcome by this version", file=sys.stderr)
    _say(args, _pairs(jobs, known), results, missing)
    return 0


def _known(jobs: Sequence[Job], results: Results, oracle: bool) -> Known:
    known = {(case.id, mode): results.load(case, mode, oracle) for case, mode in jobs}
    return {key: outcome for key, outcome in known.items() if outcome}


def _pairs(jobs: Sequence[Job], known: Known) -> list[Pair]:
    return [(case, known[case.id, mode]) for case, mode in jobs if (case.id, mode) in known]


def _say(
    args: argparse.Namespace, pairs: Sequence[Pair], results: Results, missing: int = 0
) -> None:
    print(page(pairs, _words(args), missing=missing, real=_real(pairs, results)))
    _write(args, pairs, results, missing)


def _write(args: argparse.Namespace, pairs: Sequence[Pair], results: Results, missing: int) -> None:
    """The page and its picture, where they are asked for."""
    if not args.write:
        return
    picture = args.write.with_suffix(".svg")
    drawn = matrix(marks("whyidle", judged(pairs)))
    picture.write_text(drawn, encoding="utf-8")
    text = page(pairs, _words(args), picture.name, missing, _real(pairs, results))
    args.write.write_text(text, encoding="utf-8")


def _real(pairs: Sequence[Pair], results: Results) -> dict[str, Outcome]:
    """What a GPU showed of emulated cases, where one was at hand."""
    emulated = [case for case, outcome in pairs if outcome.mode == "emulated"]
    return {case.id: one for case in emulated if (one := results.elsewhere(case, "gpu"))}


def _words(args: argparse.Namespace) -> str:
    """What was typed, but for where things lie."""
    words = f"python -m clinic run --mode {args.mode}"
    words += f" --reseed {args.reseed}" if args.reseed is not None else ""
    words += " --fixed-subset" if args.fixed_subset else ""
    words += f" --cases {' '.join(args.cases)}" if args.cases else ""
    return words + (" --no-oracle" if args.no_oracle else "")
