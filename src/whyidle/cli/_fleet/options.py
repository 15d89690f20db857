"""Options and reading that the subcommands of `whyidle fleet` share."""

from __future__ import annotations

import argparse
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli._durations import parse_seconds
from whyidle.cli._options import add_option, add_quiet, parse_amount
from whyidle.cli._progress_line import Progress
from whyidle.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whyidle.cluster.report.reading import FleetTables
    from whyidle.model.documents.fleet import Prices
    from whyidle.model.fleet_rows import Window

FORMS = "a time such as 12h or 7d ago, or a date such as 2026-11-20 or 2026-11-20T08:00Z"
ALL = "all"
CACHE = Path(".whyidle") / "fleet"


def add_fleet_options(parser: argparse.ArgumentParser) -> None:
    """Add --ledger, --meter, the window, prices and the cache."""
    parser.add_argument(
        "--ledger",
        metavar="NAME[:WHERE]",
        action="append",
        default=[],
        help="who held which GPUs: slurm, slurm:FILE, kubernetes, csv:FILE, store:DIR, or "
        "labels (of the readings); may be repeated",
    )
    parser.add_argument(
        "--meter",
        metavar="NAME:WHERE",
        action="append",
        default=[],
        help="how busy GPUs were: prometheus:URL, parquet:PATH, csv:PATH, nvidia-smi:PATH; may be "
        "repeated",
    )
    add_window_options(parser)
    form = {"metavar": "[TYPE=]PRICE", "action": "append", "default": [], "type": _parse_price}
    add_option(parser, "--price", ", of one type of GPU or of all others", **form)
    parser.add_argument(
        "--energy-price", metavar="AMOUNT", type=parse_amount, help="what a kilowatt-hour costs"
    )
    parser.add_argument("--currency", metavar="NAME", help="such as EUR")
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        default=CACHE,
        help=f"cache of what was read and summed (default: {CACHE})",
    )
    add_quiet(parser)


def add_window_options(parser: argparse.ArgumentParser) -> None:
    """Add --since and --until."""
    detail = f": {FORMS}, or all (default: 7d)"
    add_option(parser, "--since", detail, type=_parse_since, default=timedelta(days=7))
    add_option(parser, "--until", " (default: now)", type=_parse_moment)


def _parse_since(text: str) -> datetime | timedelta | None:
    return None if text == ALL else _parse_moment(text)


def _parse_moment(text: str) -> datetime | timedelta:
    try:
        seconds = parse_seconds(text)
        if seconds is not None and seconds > 0:
            return timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be {FORMS}, not {text!r}") from None


def _parse_price(text: str) -> tuple[str, float]:
    kind, _, amount = text.rpartition("=")
    return kind, parse_amount(amount)


def make_window(args: argparse.Namespace) -> Window:
    """The window that is asked about. A time ago is before --until."""
    from whyidle.model.fleet_rows import Window

    now = datetime.now(timezone.utc)
    until = args.until or now
    end = now - until if isinstance(until, timedelta) else until
    since = args.since
    if since is None:
        return Window(0, _milliseconds(end))
    start = end - since if isinstance(since, timedelta) else since
    if start >= end:
        raise UsageError("The window is empty.", why="--since is not before --until.")
    return Window(_milliseconds(start), _milliseconds(end))


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def make_prices(args: argparse.Namespace) -> Prices:
    """The stated prices."""
    from whyidle.model.documents.fleet import Prices

    return Prices(
        currency=args.currency, gpu_hour=dict(args.price), kilowatt_hour=args.energy_price
    )


def now_ms() -> int:
    """The present."""
    return int(time.time() * 1000)


@contextmanager
def open_fleet(args: argparse.Namespace, window: Window | None = None) -> Iterator[FleetTables]:
    """Read the ledgers and meters of the options, with progress; ``window``: instead of theirs.

    Raises:
        UsageError: no ledger is named.
    """
    from whyidle.cluster.report.reading import read_fleet

    if not args.ledger:
        raise UsageError(
            "No ledger was given.",
            why="It says who held which GPUs.",
            hint="--ledger slurm, --ledger kubernetes, or --ledger csv:jobs.csv",
        )
    with Progress(quiet=args.quiet) as progress:
        fleet = read_fleet(
            args.ledger, args.meter, window or make_window(args), work=args.cache, progress=progress
        )
    try:
        yield fleet
    finally:
        fleet.connection.close()
