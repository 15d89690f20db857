"""The command line: ``list``, ``run``, ``report``."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

from clinic import launch
from clinic.card import Case, Mode, cases
from clinic.examine import examine
from clinic.judge import right
from clinic.outcome import Outcome, Results
from clinic.picture import matrix
from clinic.report import page, percent
from clinic.rivals import product
from clinic.score import Pair, marks, score

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build" / "clinic"
PAGE = ROOT / "docs" / "results" / "clinic.md"
PICTURE = "clinic.svg"
FLOOR = Path(__file__).with_name("floor.toml")
STARTING_S = 3.0
"""importing the framework, for the first estimate of the time left"""


class Floor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fixed subset, and what it may not fall below."""

    cases: list[str]
    top1: float
    bucket: float
    alarms: float
    seconds: float


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    args = _parser().parse_args(words)
    return int(args.verb(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clinic", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    for name, verb in (("list", listed), ("try", tried), ("run", run), ("report", report)):
        one = verbs.add_parser(name, help=verb.__doc__)
        one.set_defaults(verb=verb)
        one.add_argument("--mode", choices=("cpu", "emulated", "recorded", "gpu"), default="cpu")
        one.add_argument(
            "--cases", nargs="+", metavar="ID", help="these only; c012 means all of it"
        )
        one.add_argument("--reseed", type=int, metavar="N", help="draw other seeds and severities")
        one.add_argument("--fixed-subset", action="store_true", help="those of floor.toml")
        if name in ("run", "report"):
            one.add_argument("--results", type=Path, default=RESULTS, help="folder of outcomes")
            one.add_argument("--no-oracle", action="store_true", help="do not time the cures")
            one.add_argument("--write", type=Path, nargs="?", const=PAGE, help=f"to {PAGE.name}")
        if name == "report":
            one.add_argument("--any-version", action="store_true", help="of the product")
        if name == "run":
            one.add_argument("--jobs", type=int, default=1, help="at once; over 1 spoils timings")
            one.add_argument("--fresh", action="store_true", help="also what is there already")
            one.add_argument("--lock", type=Path, help="a file that timed jobs hold in turn")
    return parser


def chosen(args: argparse.Namespace) -> list[Case]:
    """The cases that the options name. Raises SystemExit for one that does not exist."""
    every = [case for case in cases(args.reseed) if args.mode in case.modes]
    asked = args.cases or (floor().cases if args.fixed_subset else None)
    if asked is None:
        return every
    found = [case for case in every if any(case.id.startswith(name) for name in asked)]
    lost = [name for name in asked if not any(case.id.startswith(name) for case in every)]
    if lost:
        raise SystemExit(f"clinic: no such case in mode {args.mode}: {' '.join(lost)}")
    return found


def floor() -> Floor:
    """What is recorded."""
    return msgspec.toml.decode(FLOOR.read_bytes(), type=Floor)


def listed(args: argparse.Namespace) -> int:
    """What cases there are"""
    for case in chosen(args):
        truth = " + ".join(fault.cause or fault.locus for fault in case.inject)
        print(f"{case.id}  {case.kind:8} {case.level:7} {case.workload:10} {truth}")
    return 0


def tried(args: argparse.Namespace) -> int:
    """1 second of every arm alone: does it work, how long are its steps"""
    status = 0
    for case in chosen(args):
        brief = msgspec.structs.replace(case.budget, arm_s=1.0)
        case = msgspec.structs.replace(case, budget=brief)  # noqa: PLW2901
        for name, cured in case.arms().items():
            options = {**case.arm(cured), **({case.onset: 0.0} if case.onset else {})}
            try:
                times = launch.alone(case, options, args.mode)
                start, count = times.marks[0] - times.begin, len(times.marks)
                each = (times.marks[-1] - times.marks[0]) / max(count - 1, 1)
                said = f"{each * 1e3:8.1f} ms a step, {count} steps, first after {start:.1f} s"
            except launch.JobError as error:
                status, said = 1, f"failed: {error}"
            print(f"{case.id} {case.workload:8} {name:8} {said}", flush=True)
    return status


def run(args: argparse.Namespace) -> int:
    """Examine cases, print the score"""
    if args.mode != "recorded" and importlib.util.find_spec("torch") is None:
        print("clinic: no PyTorch here: nothing was run", file=sys.stderr)
        return 0
    found, results = chosen(args), Results(args.results)
    oracle = not (args.no_oracle or args.fixed_subset)
    known = {} if args.fresh else _known(found, args.mode, results, oracle)
    left = [case for case in found if case.id not in known]
    print(f"{len(found)} cases, {len(known)} known, {_minutes(_budget(left, oracle))} to go")
    begin = launch.wall()
    with ThreadPoolExecutor(args.jobs) as pool:
        asked = {
            pool.submit(examine, case, args.mode, results, oracle=oracle, lock=args.lock): case
            for case in left
        }
        for number, future in enumerate(as_completed(asked), 1):
            case = asked[future]
            known[case.id] = future.result()
            spent = launch.wall() - begin
            rest = spent / number * (len(left) - number)
            print(f"[{number}/{len(left)}] {told(case, known[case.id])}  {_minutes(rest)} left")
            sys.stdout.flush()
    pairs = [(case, known[case.id]) for case in found]
    status = _say(args, pairs)
    return hold(pairs, launch.wall() - begin) if args.fixed_subset else status


def report(args: argparse.Namespace) -> int:
    """Print the score of what is known"""
    found, results = chosen(args), Results(args.results)
    known = _known(found, args.mode, results, not (args.no_oracle or args.fixed_subset))
    if args.any_version:
        latest = ((case, results.latest(case, args.mode)) for case in found)
        known = {case.id: outcome for case, outcome in latest if outcome} | known
    missing = len(found) - len(known)
    if missing:
        print(f"clinic: {missing} cases have no outcome by this version", file=sys.stderr)
    return _say(args, [(case, known[case.id]) for case in found if case.id in known], missing)


def _known(found: Sequence[Case], mode: Mode, results: Results, oracle: bool) -> dict[str, Outcome]:
    known = ((case, results.load(case, mode, oracle)) for case in found)
    return {case.id: outcome for case, outcome in known if outcome is not None}


def _say(args: argparse.Namespace, pairs: Sequence[Pair], missing: int = 0) -> int:
    words = f"python -m clinic run --mode {args.mode}"
    words += f" --reseed {args.reseed}" if args.reseed is not None else ""
    words += " --no-oracle" if args.no_oracle else ""
    print(page(pairs, words, missing=missing))
    if args.write:
        done = [pair for pair in pairs if not pair[1].error]
        args.write.with_name(PICTURE).write_text(matrix(marks("whyidle", done)), encoding="utf-8")
        args.write.write_text(page(pairs, words, PICTURE, missing), encoding="utf-8")
    return 0


def hold(pairs: Sequence[Pair], seconds: float) -> int:
    """Whether the subset is as good as recorded."""
    bound, found = floor(), score(pairs)
    table = found.tables[0]
    alarmed = [m.alarm for m in marks("whyidle", [p for p in pairs if not p[1].error])]
    alarms = sum(bool(one) for one in alarmed)
    broken = [
        f"{words} {percent(value)} is below {percent(least)}"
        for words, value, least in (
            ("top-1", table.top1, bound.top1),
            ("bucket", table.bucket, bound.bucket),
        )
        if value is not None and value < least
    ]
    if alarms > bound.alarms:
        broken.append(f"{alarms} false alarms, {bound.alarms:.0f} allowed")
    if found.errors:
        broken.append(f"{found.errors} cases failed")
    if seconds > bound.seconds:
        broken.append(f"it took {seconds:.0f} s, {bound.seconds:.0f} allowed")
    print(f"fixed subset: {seconds:.0f} s; " + ("; ".join(broken) or "the floor holds"))
    return 1 if broken else 0


def told(case: Case, outcome: Outcome) -> str:
    """One line of progress."""
    if outcome.error:
        return f"{case.id} failed: {outcome.error.splitlines()[-1][:120]}"
    said = ", ".join(guess.cause for guess in product(outcome).guesses[:2]) or outcome.state
    truth = " + ".join(fault.cause or "unknown" for fault in case.inject) or case.kind
    gain = outcome.gains.get("cured")
    (mark,) = marks("whyidle", [(case, outcome)])
    sign = {True: "+", False: "-", None: " "}[right(mark)]
    return f"{sign} {case.id} {truth}{f' x{gain.ratio:.2f}' if gain else ''} -> {said}"


def _budget(left: Sequence[Case], oracle: bool) -> float:
    """Seconds that cases should take."""
    total = 0.0
    for case in left:
        total += case.budget.watch_s + STARTING_S
        arms = len(case.arms()) if oracle and case.inject else 0
        total += arms * case.budget.pairs * (case.budget.arm_s + STARTING_S)
    return total


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
