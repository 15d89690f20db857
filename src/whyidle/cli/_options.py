"""Options that several subcommands share."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyidle.store.run_store import Store

STDOUT = "-"


SHARED: dict[str, tuple[str, str | None]] = {
    "--alerts": ("evaluate alerts, with the rules and routes of a file", "FILE"),
    "--all": ("show all details", None),
    "--budget": ("total time of the trials", "TIME"),
    "--export": ("write another form, from an installed plug-in", "FORM=PATH|-"),
    "--fail-on": ("exit with status 3 if a finding is at least this severe", None),
    "--html": ("write a self-contained HTML page", "PATH"),
    "--interval": ("time between readings", "SECONDS"),
    "--json": ("write the result as JSON; - is standard output", "PATH|-"),
    "--markdown": ("write Markdown for an issue; - is standard output", "PATH|-"),
    "--out": ("folder to write to", "DIR"),
    "--plan": ("apply the fixes of a plan from whyidle fix without changing your files", "PATH"),
    "--price": ("price of a GPU-hour", "PRICE"),
    "--quiet": ("print no report and no progress", None),
    "--since": ("only newer entries", "TIME"),
    "--stop-after": ("end the command after N optimizer steps, as Ctrl-C does", "N"),
    "--store": (
        "folder of stored runs (default: $WHYIDLE_HOME, or .whyidle in this folder)",
        "DIR",
    ),
    "--until": ("only older entries", "TIME"),
    "--user": ("only this user", "NAME"),
    "--yes": ("go ahead", None),
}
"""The options of more than one verb: each word has one meaning, which a verb may only complete.
word -> meaning, metavariable (None: a switch)"""
_LETTERS = {"--all": "-a", "--quiet": "-q", "--yes": "-y"}
RENAMED = {
    "whyidle alerts --for": "--duration",
    "whyidle alerts --prometheus": "--rules",
    "whyidle fix --plan": "--write-plan",
    "whyidle history --fail-on slower": "--fail-if-slower",
    "whyidle run --profile look": "--look profile",
    "whyidle scale --steps": "--stop-after",
    "whyidle tune --for": "--budget",
    "whyidle watch --fail-on": "--fail-on-state",
}
"""spellings of whyidle 0.2, understood until 0.4 -> their new spelling"""
OMITTED: dict[argparse.Action, tuple[tuple[str, ...], str]] = {}
"""option whose value may be left out before a command, which argparse cannot tell from a value ->
the values that it has, and the one that is meant where none of them follows"""
MIXED: set[str] = set()
"""verbs whose own options may also stand after the words of the command"""


def add_option(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    word: str,
    detail: str = "",
    **how: Any,
) -> argparse.Action:
    """Add an option of ``SHARED``; ``detail`` completes its help, ``how`` goes to argparse."""
    meaning, metavar = SHARED[word]
    kind = {"metavar": metavar} if metavar else {} if "choices" in how else {"action": "store_true"}
    names = [_LETTERS[word], word] if word in _LETTERS else [word]
    return parser.add_argument(*names, help=meaning + detail, **(kind | how))


def add_command(
    parsers: argparse._SubParsersAction[Any],
    name: str,
    module: Any,
    formatter: Any,
) -> argparse.ArgumentParser:
    """Add the command of a module, whose docstring is its help."""
    sub: argparse.ArgumentParser = parsers.add_parser(
        name,
        help=module.__doc__.partition("\n")[0].rstrip("."),
        description=module.__doc__.strip(),
        formatter_class=formatter,
        allow_abbrev=False,  # words of a watched command must not match our options
    )
    sub.add_argument("--verbose", action="store_true", help="show a traceback with an error")
    module.prepare(sub)
    return sub


def arrange_words(argv: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """The words of a verb as argparse reads them: with new spellings for old ones, the values of
    ``OMITTED`` that were left out, and the options of ``MIXED`` verbs before the command. Words of
    a watched command are not touched."""
    options, words = parser._option_string_actions, list(argv)
    has_command = any(action.nargs == argparse.REMAINDER for action in parser._actions)
    done, command = list[str](), list[str]()
    while words:
        _respell(words, parser.prog)
        word = words.pop(0)
        action = options.get(word.partition("=")[0])
        if parser.prog in MIXED and action is None and word != "--":
            command.append(word)
            continue
        if word == "--" or (has_command and not word.startswith("-")):
            return [*done, *(command or [word]), *words]
        done.append(word)
        if action in OMITTED and "=" not in word:
            values, default = OMITTED[action]
            done.append(words.pop(0) if words[:1] and words[0] in values else default)
        elif action is not None and action.nargs is None and "=" not in word:
            done += [words.pop(0)] if words else []
    return [*done, "--", *command] if command else done


def _respell(words: list[str], prog: str) -> None:
    """Give the first word its new spelling, with a notice."""
    name, joined, value = words[0].partition("=")
    parts = [name, value] if joined else words[:2]
    for length in (2, 1):
        old = " ".join([prog, *parts[:length]])
        if old in RENAMED:
            print(f"whyidle: {old} is now {RENAMED[old]}, and ends with 0.4", file=sys.stderr)
            kept = [value] if joined and length == 1 else []
            words[: 1 if joined else length] = [*RENAMED[old].split(), *kept]
            return


def parse_count(text: str) -> int:
    """Read a number of 1 or more. Raises ArgumentTypeError."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more, not {text!r}")
    return int(text)


def parse_amount(text: str) -> float:
    """Read an amount of money. Raises ArgumentTypeError."""
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < 1e9:
        raise argparse.ArgumentTypeError(f"must be an amount, 0 or more, not {text!r}")
    return amount


def parse_states(text: str, known: Sequence[str]) -> list[str]:
    """Read a list of ``known`` states. Raises ArgumentTypeError."""
    states = text.split(",")
    if unknown := [state for state in states if state not in known]:
        raise argparse.ArgumentTypeError(f"unknown state {unknown[0]!r}: {', '.join(known)}")
    return states


def parse_seconds(text: str, least: float, most: float) -> float:
    """Read a number of seconds from ``least`` to ``most``. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not least <= seconds <= most:
        raise argparse.ArgumentTypeError(f"must be {least:g} to {most:g} seconds, not {text!r}")
    return seconds


def add_outputs(
    parser: argparse.ArgumentParser,
    forms: Sequence[str] = ("--json", "--html", "--markdown", "--export"),
    everything: str = ", including minor findings and causes not checked",
) -> argparse._ArgumentGroup:
    """Add the output options; ``everything`` completes the help of --all ("": no such option)."""
    group = parser.add_argument_group("output")
    for form in forms:
        how: dict[str, Any] = {"type": _parse_export, "action": "append", "default": []}
        add_option(group, form, **(how if form == "--export" else {}))
    if everything:
        add_option(group, "--all", everything)
    add_option(group, "--quiet")
    return group


def _parse_export(text: str) -> tuple[str, str]:
    form, _, path = text.partition("=")
    if not form or not path:
        raise argparse.ArgumentTypeError(f"must be FORM=PATH, not {text!r}")
    return form, path


def add_quiet(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add --quiet."""
    add_option(parser, "--quiet")


def add_storage(parser: argparse.ArgumentParser) -> None:
    """Add --store and --no-store."""
    group = add_store(parser)
    group.add_argument("--no-store", action="store_true", help="do not store this diagnosis")


def add_store(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add --store."""
    group = parser.add_argument_group("store")
    add_option(group, "--store", type=Path)
    return group


def add_prometheus(parser: argparse.ArgumentParser) -> None:
    """Add the option that publishes metrics."""
    parser.add_argument_group("publishing").add_argument(
        "--prometheus",
        metavar="[ADDRESS:]PORT",
        help="serve metrics for Prometheus, on this machine only unless an address is given",
    )


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Add --fail-on."""
    add_option(parser, "--fail-on", choices=("warning", "critical"))


def store_of(args: argparse.Namespace) -> Store:
    """The store of --store, of $WHYIDLE_HOME, or of the working directory."""
    from whyidle.store.location import locate_store

    return locate_store(args.store)
