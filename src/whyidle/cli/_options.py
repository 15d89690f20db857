"""Options that several subcommands share."""

from __future__ import annotations

import argparse
from pathlib import Path

STDOUT = "-"


def add_outputs(
    parser: argparse.ArgumentParser, *, perfetto: bool = False, free: bool = True
) -> None:
    """Where the answer goes besides the terminal; ``free`` is whether standard output is ours."""
    path, dash = ("PATH|-", "; - is standard output") if free else ("PATH", "")
    group = parser.add_argument_group("output")
    group.add_argument("--json", metavar=path, help=f"the whole diagnosis{dash}")
    group.add_argument("--html", metavar="PATH", help="one self-contained page with pictures")
    group.add_argument("--markdown", metavar=path, help="text to paste into an issue")
    group.add_argument(
        "--export",
        metavar=f"FORM={path}",
        type=_parse_export,
        action="append",
        default=[],
        help="another form, of an installed plug-in",
    )
    if perfetto:
        group.add_argument(
            "--perfetto", metavar="PATH", help="the trace with our gaps and causes as extra tracks"
        )
    group.add_argument(
        "-a", "--all", action="store_true", help="also what is small, and what could not be told"
    )
    add_quiet(group)


def _parse_export(text: str) -> tuple[str, str]:
    form, _, path = text.partition("=")
    if not form or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not FORM=PATH")
    return form, path


def add_quiet(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """--quiet."""
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no report on the terminal, no progress"
    )


def add_storage(parser: argparse.ArgumentParser) -> None:
    """Where runs are kept, and whether this one is."""
    group = add_store(parser)
    group.add_argument("--no-store", action="store_true", help="do not keep this diagnosis")


def add_store(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """--store."""
    group = parser.add_argument_group("store")
    group.add_argument(
        "--store",
        metavar="DIR",
        type=Path,
        help="where runs are kept (default: $WHYIDLE_HOME, else .whyidle here)",
    )
    return group


def add_gate(parser: argparse.ArgumentParser) -> None:
    """--fail-on."""
    parser.add_argument(
        "--fail-on",
        choices=("warning", "critical"),
        help="exit with status 3 when a finding is this severe or worse",
    )
