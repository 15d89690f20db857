"""Show the stored runs of a command, and the run at which it became slower.

    whyidle history train.py                 all stored runs of commands that contain this word
    whyidle history --since 30d train.py     the same for the last thirty days
    whyidle history --html h.html train.py   as a page
    whyidle history -- train.py --html       words after -- belong to the command

A run counts as slower if its step time is above the range that earlier runs on the same device
predict, and by at least 5 percent. The next run confirms it.
"""

from __future__ import annotations

import argparse
import shlex
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._durations import parse_seconds
from whyidle.cli._next_steps import store_option
from whyidle.cli._options import MIXED, add_option, add_outputs, add_store, store_of
from whyidle.errors import GateError, InputError, StoreError, UsageError

if TYPE_CHECKING:
    from whyidle.model.documents.run_history import RunHistory
    from whyidle.runs.run_history import StoredRun
    from whyidle.store.entry import Entry

_FORMS = "a time such as 12h or 7d, or a date such as 2026-11-20"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    MIXED.add(parser.prog)
    parser.usage = "whyidle history [OPTIONS] COMMAND..."
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument(
        "--fail-if-slower",
        action="store_true",
        help="exit with status 3 if the newest run, or the one before, became slower",
    )
    add_option(parser, "--since", f": {_FORMS}", type=_parse_moment)
    add_option(parser, "--until", ", in the same form", type=_parse_moment)
    add_outputs(parser, ("--json", "--html"), "")
    add_store(parser)


def _parse_moment(text: str) -> datetime:
    """A time ago, or a local date, with or without a time of day."""
    try:
        seconds = parse_seconds(text)
        if seconds is not None and seconds >= 0:
            return datetime.now(timezone.utc) - timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {_FORMS}, not {text!r}") from None
    return moment.astimezone(timezone.utc)


def run(args: argparse.Namespace) -> int:
    """Read the runs of the command and show them."""
    from whyidle.reports._html.sections import render_page
    from whyidle.reports._run_history import history_parts, summarize_history
    from whyidle.runs.run_history import build_history

    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words:
        raise UsageError("No command was given.", hint="whyidle history train.py; whyidle runs")
    args.command = words
    _output.check_outputs(args)
    history = build_history(_read_runs(args), words)
    parts, about = history_parts(history), shlex.join(words)
    if _output.write_documents(
        args,
        json=lambda: history,
        html=lambda: render_page(summarize_history(history), about, parts, history.whyidle),
    ):
        _print_history(args, history)
    _check_gate(args, history)
    return 0


def _read_runs(args: argparse.Namespace) -> list[StoredRun]:
    """The diagnosed runs of the command, the oldest first.

    Raises:
        InputError: there is none.
    """
    from whyidle.runs.run_history import StoredRun

    store, runs, unread = store_of(args), [], 0
    for entry in store.list_runs():
        if not _is_meant(entry, args):
            continue
        try:
            diagnosis = store.read_diagnosis(entry)
        except StoreError:
            unread += 1
            continue
        if entry.meta is not None and not entry.has_failed:
            runs.append(StoredRun(entry.id, entry.meta.created, diagnosis))
    if unread:
        _output.print_note(args, f"{unread} runs of this command have no diagnosis yet")
    if not runs:
        raise InputError(
            f"The store {store.root} holds no diagnosed run of {shlex.join(args.command)}.",
            why="No stored command contains these words one after the other, in the given time.",
            hint=f"whyidle runs{store_option(args.store)}",
        )
    return runs


def _is_meant(entry: Entry, args: argparse.Namespace) -> bool:
    """Whether a run is of the command and the time."""
    from whyidle.runs.run_history import matches_command

    meta = entry.meta
    if meta is None or not matches_command(meta.command or meta.sources, args.command):
        return False
    try:
        moment = datetime.fromisoformat(meta.created)
    except ValueError:
        return args.since is None and args.until is None
    after = args.since is None or moment >= args.since
    return after and (args.until is None or moment <= args.until)


def _print_history(args: argparse.Namespace, history: RunHistory) -> None:
    from whyidle.reports._run_history import history_parts

    option = store_option(args.store)
    steps = []
    if history.changes:
        change = history.changes[-1]
        before = next(
            r for r, s in zip(history.rows, history.rows[1:], strict=False) if s.run == change.run
        ).run
        steps.append((f"whyidle compare {before} {change.run}{option}", "what changed"))
    if not args.html:
        command = shlex.join(args.command)
        steps.append((f"whyidle history{option} --html history.html {command}", "as a page"))
    _output.print_parts(history_parts(history), steps)


def _check_gate(args: argparse.Namespace, history: RunHistory) -> None:
    newest = {row.run for row in history.rows[-2:]}
    slower = [c for c in history.changes if c.kind == "slower" and c.run in newest]
    if args.fail_if_slower and slower:
        raise GateError(
            f"--fail-if-slower: the run {slower[-1].run} became slower.",
            hint=f"whyidle report {slower[-1].run}{store_option(args.store)}",
        )
