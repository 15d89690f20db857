"""The command line: what there is, whether it works, what comes of it, and the page of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from clinic.turns import at_once
from clinic.verbs import STOPPED, USAGE, UsageError
from clinic.verbs._chosen import MODES
from clinic.verbs.heal import healed
from clinic.verbs.look import guarded, listed, tried
from clinic.verbs.report import report
from clinic.verbs.run import run

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build" / "clinic"
PAGE, HEALED = (ROOT / "build" / "results" / name for name in ("clinic.md", "healed.md"))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    args = _parser().parse_args(words)
    try:
        return int(args.verb(args))
    except UsageError as error:
        print(f"clinic: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\nclinic: stopped; what is done is kept, the same words go on", file=sys.stderr)
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clinic", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    every = {"list": listed, "try": tried, "guard": guarded, "run": run, "report": report}
    for name, verb in (*every.items(), ("heal", healed)):
        one = verbs.add_parser(name, help=verb.__doc__)
        one.set_defaults(verb=verb)
        one.add_argument("--mode", choices=(*MODES, "all"), default="cpu")
        one.add_argument(
            "--cases", nargs="+", metavar="ID", help="these only; c012 means all of it"
        )
        one.add_argument("--reseed", type=int, metavar="N", help="draw other seeds and severities")
        one.add_argument("--fixed-subset", action="store_true", help="those of floor.toml")
        if name == "heal":
            said = "one level of each sheet, in an order that is drawn, too"
            one.add_argument("--sample", action="store_true", help=said)
            one.add_argument("--budget", type=_some, default=60, help="seconds of each fix")
            one.add_argument("--lock", type=Path, help="a file that timed jobs hold in turn")
        if name in ("run", "report", "heal"):
            one.add_argument("--results", type=Path, default=RESULTS, help="folder of outcomes")
            page = HEALED if name == "heal" else PAGE
            one.add_argument("--write", type=Path, nargs="?", const=page, help=f"to {page.name}")
        if name in ("run", "report"):
            one.add_argument("--no-oracle", action="store_true", help="do not time the cures")
        if name == "report":
            one.add_argument("--any-version", action="store_true", help="of the product")
        if name == "run":
            said = f"emulated cases at once, {at_once()} here; others always run alone"
            one.add_argument("--jobs", type=_some, default=at_once(), help=said)
            one.add_argument("--fresh", action="store_true", help="also what is there already")
            one.add_argument("--lock", type=Path, help="a file that timed jobs hold in turn")
    return parser


def _some(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of jobs: 1 or more")
    return int(text)
