"""Say what changed between two runs or traces, and whether it is real.

A and B are traces (or folders or zips of ranks), diagnoses written with --json, or stored runs
(`whyidle runs`; `last`, `last~1`). With --max-regression the exit status is 3 when B's step is
slower than A's by more than PCT percent and the difference is larger than the spread.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _next, _output
from whyidle.cli._options import STDOUT, quiet, store
from whyidle.cli._progress import Progress
from whyidle.cli._store import store_of

if TYPE_CHECKING:
    from whyidle.model.comparison import Comparison
    from whyidle.model.diagnosis import Diagnosis


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("before", metavar="A")
    parser.add_argument("after", metavar="B")
    parser.add_argument(
        "--max-regression", type=_percent, metavar="PCT", help="fail when B is slower by more"
    )
    parser.add_argument("--json", metavar="PATH|-", help="the whole comparison")
    parser.add_argument("-a", "--all", action="store_true", help="every change")
    quiet(parser)
    store(parser)


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage of 0 or more")
    return value


def run(args: argparse.Namespace) -> int:
    """Read both, compare, say."""
    from whyidle.engine.compare import check, compare

    names = (args.before, args.after)
    _output.check(args, inputs=[Path(name) for name in names])
    with Progress(quiet=args.quiet) as progress:
        before, after = (_diagnosis(args, name, progress) for name in names)
    comparison = compare(before, after)
    _say(args, comparison)
    if args.max_regression is not None:
        check(comparison, args.max_regression)
    return 0


def _diagnosis(args: argparse.Namespace, name: str, progress: Progress) -> Diagnosis:
    """What a name means: a path where there is one, else a stored run."""
    from whyidle.engine.explain import explain
    from whyidle.errors import InputError, StoreError

    if Path(name).exists():
        return explain([Path(name)], progress=progress, stage=progress.stage).diagnosis
    shelf = store_of(args)
    try:
        return shelf.read(shelf.find(name))
    except StoreError as error:
        raise InputError(
            f"{name} is neither a path nor a stored run.", why=error.why, hint="whyidle runs"
        ) from error


def _say(args: argparse.Namespace, comparison: Comparison) -> None:
    if args.json:
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(comparison), indent=1).decode()
        _output.put(args.json, text + "\n")
        if args.json == STDOUT:
            return
        _output.note(args, f"wrote {args.json}")
    if not args.quiet:
        _output.show(_text(args, comparison))


def _text(args: argparse.Namespace, comparison: Comparison) -> str:
    from whyidle.exporters._comparison import render

    steps = [(f"whyidle causes {cause}", "new in B") for cause in comparison.appeared[:1]]
    if not args.all:
        both = _next.shell([Path(args.before), Path(args.after)])
        steps.append((f"whyidle compare {both} --all{_next.where(args.store)}", "every change"))
    return render(
        comparison,
        width=_output.width(),
        colours=_output.colours(),
        full=args.all,
        next_steps=steps,
    )
