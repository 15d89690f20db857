"""Options that several subcommands share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyidle.store.run_store import Store

STDOUT = "-"


OMITTED: dict[argparse.Action, tuple[tuple[str, ...], str]] = {}
"""option whose value may be left out before a command, which argparse cannot tell from a value ->
the values that it has, and the one that is meant where none of them follows"""


def complete_values(argv: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """Give options of ``OMITTED`` the value that was left out, up to the first word that belongs to
    the watched command."""
    options = parser._option_string_actions
    done: list[str] = []
    waiting = iter(argv)
    for word in waiting:
        action = options.get(word)
        done.append(word)
        if not word.startswith("-"):
            break
        if action in OMITTED:
            values, default = OMITTED[action]
            follows = next(waiting, None)
            done.append(follows if follows in values else default)
            if follows is not None and follows not in values:
                return [*done, *complete_values([follows, *waiting], parser)]
        elif action is not None and action.nargs is None:
            done += [value] if (value := next(waiting, None)) is not None else []
    return [*done, *waiting]


def parse_seconds(text: str, least: float, most: float) -> float:
    """Read a number of seconds from ``least`` to ``most``. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not least <= seconds <= most:
        raise argparse.ArgumentTypeError(f"must be {least:g} to {most:g} seconds, not {text!r}")
    return seconds


def add_outputs(parser: argparse.ArgumentParser, *, free: bool = True) -> None:
    """Add the output options; ``free``: standard output may be used."""
    path, dash = ("PATH|-", "; - is standard output") if free else ("PATH", "")
    group = parser.add_argument_group("output")
    group.add_argument("--json", metavar=path, help=f"write the diagnosis as JSON{dash}")
    group.add_argument("--html", metavar="PATH", help="write a self-contained HTML page")
    group.add_argument("--markdown", metavar=path, help=f"write Markdown for an issue{dash}")
    group.add_argument(
        "--export",
        metavar=f"FORM={path}",
        type=_parse_export,
        action="append",
        default=[],
        help="write another form, from an installed plug-in",
    )
    group.add_argument(
        "-a",
        "--all",
        action="store_true",
        help="also show minor findings and causes not checked",
    )
    add_quiet(group)


def _parse_export(text: str) -> tuple[str, str]:
    form, _, path = text.partition("=")
    if not form or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not FORM=PATH")
    return form, path


def add_quiet(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add --quiet."""
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print no report and no progress"
    )


def add_storage(parser: argparse.ArgumentParser) -> None:
    """Add --store and --no-store."""
    group = add_store(parser)
    group.add_argument("--no-store", action="store_true", help="do not store this diagnosis")


def add_store(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add --store."""
    group = parser.add_argument_group("store")
    group.add_argument(
        "--store",
        metavar="DIR",
        type=Path,
        help="folder of stored runs (default: $WHYIDLE_HOME, or .whyidle in this folder)",
    )
    return group


def add_destinations(parser: argparse.ArgumentParser) -> None:
    """Add the options of publishers."""
    group = parser.add_argument_group("publishing")
    group.add_argument(
        "--prometheus",
        metavar="[ADDRESS:]PORT",
        help="serve a page of metrics, on this machine alone unless an address is named",
    )
    group.add_argument(
        "--textfile", metavar="DIR", help="write metrics for node-exporter's textfile collector"
    )
    group.add_argument("--otlp", metavar="URL", help="send metrics by OTLP/HTTP")
    group.add_argument(
        "--dcgm-names",
        action="store_true",
        help="add dcgm-exporter's metrics to the page and the file, for machines without one",
    )


def list_destinations(args: argparse.Namespace) -> dict[str, str]:
    """The publishers that the user asked for, and where each writes."""
    wanted = ((name, getattr(args, name)) for name in ("prometheus", "textfile", "otlp"))
    return {name: where for name, where in wanted if where is not None}


def parse_ranks(text: str) -> frozenset[int]:
    """Return the ranks in a list such as ``0-7,64``.

    Raises:
        ArgumentTypeError: it is no such list.
    """
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError:
            low, high = 0, -1
        if not 0 <= low <= high < 1 << 20:
            raise argparse.ArgumentTypeError(f"{part!r} is no rank and no range such as 0-7")
        ranks.update(range(low, high + 1))
    return frozenset(ranks)


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Add --fail-on."""
    parser.add_argument(
        "--fail-on",
        choices=("warning", "critical"),
        help="exit with status 3 if a finding is at least this severe",
    )


def store_of(args: argparse.Namespace) -> Store:
    """The store of --store, of $WHYIDLE_HOME, or of the working directory."""
    from whyidle.store.location import locate_store

    return locate_store(args.store)
