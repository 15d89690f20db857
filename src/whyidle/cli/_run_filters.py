"""Which stored runs are meant: options that `whyidle runs` and `whyidle history` share."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING

from whyidle.cli._durations import parse_seconds
from whyidle.cli._options import add_option, parse_states

if TYPE_CHECKING:
    from whyidle.store.entry import Entry
    from whyidle.store.run_store import Store

FAILED = "failed"
STATES = ("starved", "inefficient", "saturated", "inconclusive", FAILED, "recording")
"""verdicts, and what a run without one is; ``recording``: not diagnosed yet"""
FORMS = "a time such as 12h or 7d, or a date such as 2026-11-20"


def add_period(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add --since and --until."""
    add_option(parser, "--since", f": {FORMS}", type=_parse_moment)
    add_option(parser, "--until", ", in the same form", type=_parse_moment)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add all filters."""
    group = parser.add_argument_group("which runs")
    group.add_argument(
        "--command",
        metavar="WORDS",
        type=_parse_words,
        help="only runs of commands with these words, such as train.py or 'train.py --lr 1'",
    )
    group.add_argument(
        "--verdict",
        metavar="STATES",
        type=partial(parse_states, known=STATES),
        help=f"only runs with these verdicts, separated by commas: {', '.join(STATES)}",
    )
    group.add_argument(
        "--device", metavar="TEXT", help="only runs on devices whose kind or name contains it"
    )
    add_period(group)


def _parse_words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
    if not words:
        raise argparse.ArgumentTypeError("must not be empty")
    return words


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
        raise argparse.ArgumentTypeError(f"must be {FORMS}, not {text!r}") from None
    return moment.astimezone(timezone.utc)


def select_runs(store: Store, entries: Sequence[Entry], args: argparse.Namespace) -> list[Entry]:
    """The runs that all given filters keep. Runs that cannot be read are kept without a filter."""
    return [entry for entry in entries if _is_kept(store, entry, args)]


def is_filtered(args: argparse.Namespace) -> bool:
    """Whether a filter was given."""
    names = ("command", "verdict", "device", "since", "until")
    return any(getattr(args, name, None) is not None for name in names)


def _is_kept(store: Store, entry: Entry, args: argparse.Namespace) -> bool:
    from whyidle.runs.run_history import matches_command

    if not is_filtered(args):
        return True
    if (meta := entry.meta) is None:
        return False
    state = FAILED if entry.has_failed else meta.state
    words = getattr(args, "command", None)
    if words is not None and not matches_command(meta.command or meta.sources, words):
        return False
    if getattr(args, "verdict", None) is not None and state not in args.verdict:
        return False
    if not _is_within(meta.created, args.since, args.until):
        return False
    wanted = getattr(args, "device", None)
    return wanted is None or wanted.lower() in _device_of(store, entry).lower()


def _is_within(created: str, since: datetime | None, until: datetime | None) -> bool:
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return False
    return (since is None or moment >= since) and (until is None or moment <= until)


def _device_of(store: Store, entry: Entry) -> str:
    from whyidle.errors import StoreError

    try:
        device = store.read_diagnosis(entry).device
    except StoreError:  # not diagnosed yet
        return ""
    return f"{device.kind} {device.name or ''}"
