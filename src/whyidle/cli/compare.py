"""Compare two runs or traces: what changed, and is the change larger than the spread.

A and B are traces (or folders or zips of ranks), diagnoses written with --json, or stored runs
(see `whyidle runs`; `last` is the newest, `last~1` the one before). With --max-regression the exit
status is 3 if B's step is slower than A's by more than PCT percent and by more than the spread.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _next_steps, _output
from whyidle.cli._options import STDOUT, add_quiet, add_store, store_of
from whyidle.cli._progress_line import Progress

if TYPE_CHECKING:
    from whyidle.model.comparison import Comparison
    from whyidle.model.diagnosis import Diagnosis


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("before", metavar="A")
    parser.add_argument("after", metavar="B")
    parser.add_argument(
        "--max-regression",
        type=_parse_percent,
        metavar="PCT",
        help="exit with status 3 if B is slower by more than PCT percent",
    )
    parser.add_argument("--json", metavar="PATH|-", help="write the comparison as JSON")
    parser.add_argument("-a", "--all", action="store_true", help="show every change")
    add_quiet(parser)
    add_store(parser)


def _parse_percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"must be a percentage, 0 or more, not {text!r}")
    return value


def run(args: argparse.Namespace) -> int:
    """Read both sides, compare them and print the comparison."""
    from whyidle.engine.compare import check_regression, compare_diagnoses

    names = (args.before, args.after)
    _output.check_outputs(args, inputs=[Path(name) for name in names])
    with Progress(quiet=args.quiet) as progress:
        before, after = (_load_diagnosis(args, name, progress) for name in names)
    comparison = compare_diagnoses(before, after)
    _print_comparison(args, comparison)
    if args.max_regression is not None:
        check_regression(comparison, args.max_regression)
    return 0


def _load_diagnosis(args: argparse.Namespace, name: str, progress: Progress) -> Diagnosis:
    from whyidle.engine.explain import explain_paths
    from whyidle.errors import InputError, StoreError

    if Path(name).exists():
        return explain_paths([Path(name)], progress=progress, stage=progress.show_stage).diagnosis
    shelf = store_of(args)
    try:
        return shelf.read_diagnosis(shelf.find_run(name))
    except StoreError as error:
        raise InputError(
            f"{name} is neither a path nor a stored run.", why=error.why, hint="whyidle runs"
        ) from error


def _print_comparison(args: argparse.Namespace, comparison: Comparison) -> None:
    if args.json:
        _output.write_json(args.json, comparison)
        if args.json == STDOUT:
            return
        _output.print_note(args, f"wrote {args.json}")
    if not args.quiet:
        _output.print_text(_comparison_text(args, comparison))


def _comparison_text(args: argparse.Namespace, comparison: Comparison) -> str:
    from whyidle.exporters._comparison_page import render_comparison

    steps = [(f"whyidle causes {cause}", "new in B") for cause in comparison.appeared[:1]]
    if not args.all:
        both = _next_steps.shell_text([Path(args.before), Path(args.after)])
        steps.append(
            (f"whyidle compare {both} --all{_next_steps.store_option(args.store)}", "every change")
        )
    return render_comparison(
        comparison,
        width=_output.output_width(),
        colours=_output.stream_colours(),
        full=args.all,
        next_steps=steps,
    )
