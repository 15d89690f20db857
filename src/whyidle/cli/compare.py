"""Compare runs or traces: what changed, and whether the change exceeds the spread.

Runs are traces (or folders or zips of ranks), diagnoses written with --json, or stored runs (see
`whyidle runs`; `last` is the newest, `last~1` the one before). The changes of two are listed;
three or more are shown as a table, each compared with the first. With --max-regression the
exit status is 3 if a step is slower than the first's by more than PCT percent and by more than the
spread.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _next_steps, _output
from whyidle.cli._options import add_outputs, add_store, store_of
from whyidle.cli._progress_line import Progress

if TYPE_CHECKING:
    from whyidle.model.diagnosis import Diagnosis
    from whyidle.model.documents.comparison import Comparison
    from whyidle.model.documents.run_table import RunTable


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("before", metavar="A", help="run, trace or diagnosis before")
    parser.add_argument("after", metavar="B", help="run, trace or diagnosis after")
    parser.add_argument("others", metavar="C", nargs="*", help="further runs, for a table")
    parser.add_argument(
        "--max-regression",
        type=_parse_percent,
        metavar="PCT",
        help="exit with status 3 if a run is slower than A by more than PCT percent",
    )
    add_outputs(parser, ("--json", "--html", "--markdown"), ": every change of two runs")
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
    """Read the runs, compare them and print the comparison."""
    from whyidle.runs.compare import check_regression
    from whyidle.runs.run_table import build_run_table

    names = [args.before, args.after, *args.others]
    _output.check_outputs(args, inputs=[Path(name) for name in names])
    with Progress(quiet=args.quiet) as progress:
        diagnoses = [_load_diagnosis(args, name, progress) for name in names]
    table = build_run_table(diagnoses)
    _write_comparison(args, table, names)
    if args.max_regression is not None:
        for comparison in table.comparisons:
            check_regression(comparison, args.max_regression)
    return 0


def _load_diagnosis(args: argparse.Namespace, name: str, progress: Progress) -> Diagnosis:
    from whyidle.errors import InputError, StoreError
    from whyidle.recordings.explain import explain_paths

    if Path(name).exists():
        return explain_paths([Path(name)], progress=progress, stage=progress.show_stage).diagnosis
    shelf = store_of(args)
    try:
        return shelf.read_diagnosis(shelf.find_run(name))
    except StoreError as error:
        raise InputError(
            f"{name} is neither a path nor a stored run.", why=error.why, hint="whyidle runs"
        ) from error


def _write_comparison(args: argparse.Namespace, table: RunTable, names: list[str]) -> None:
    """Write the requested forms, and the report unless one of them goes to standard output."""
    from whyidle.reports._html.sections import render_page
    from whyidle.reports._markdown_sections import render_markdown
    from whyidle.reports._run_table import summarize_table, table_parts

    pair, parts = table.comparisons[0] if len(names) == 2 else None, table_parts(table)
    about = " · ".join(row.name for row in table.runs)
    if not _output.write_documents(
        args,
        json=lambda: pair or table,
        html=lambda: render_page(summarize_table(table), about, parts, table.whyidle),
        markdown=lambda: render_markdown(parts),
    ):
        return
    if pair:
        _print_pair(args, pair, names)
        return
    command = f"whyidle compare {_quote_names(names)}"
    steps = [] if args.html else [(f"{command} --html runs.html{_store(args)}", "with a chart")]
    _output.print_parts(parts, steps)


def _print_pair(args: argparse.Namespace, comparison: Comparison, names: list[str]) -> None:
    from whyidle.reports._comparison_page import comparison_parts

    steps = [(f"whyidle causes {cause}", "new in B") for cause in comparison.appeared[:1]]
    if not args.all:
        both = _quote_names(names)
        steps.append((f"whyidle compare {both} --all{_store(args)}", "every change"))
    _output.print_parts(comparison_parts(comparison, full=args.all), steps)


def _quote_names(names: list[str]) -> str:
    return _next_steps.shell_text([Path(name) for name in names])


def _store(args: argparse.Namespace) -> str:
    return _next_steps.store_option(args.store)
