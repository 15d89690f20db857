"""Parses the command line, runs one subcommand, and is the one place that reports errors."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from whyidle.errors import UsageError, WhyidleError
from whyidle.version import __version__

VERBS = ("run", "fix", "explain", "report", "compare", "runs", "causes", "doctor")
"""in the order of the help"""
INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 plus the signal, as a shell reports them"""
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""what a job prints and a file is called must not reach the terminal as a command"""

_EPILOG = """\
examples:
  whyidle run python train.py                watch a job, and say what its GPU waits for
  whyidle explain trace.json.gz              why was the GPU idle in this recording?
  whyidle explain traces/ --html why.html    a folder of ranks, with a picture
  whyidle compare before.json after.json     what changed, and is it real?

exit status: 0 done, 1 our error or bad input, 2 wrong usage, 3 a gate that you asked for failed
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are ours, so that they are all told in one place."""

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError instead of exiting."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", hint=f"{self.prog} --help")


def run(argv: Sequence[str]) -> int:
    """Run one command. Every failure ends here: told in three lines, never as a traceback."""
    loud = "--verbose" in argv
    _forgive_terminals()
    try:
        status = _command(list(argv))
        sys.stdout.flush()
        return status
    except WhyidleError as error:
        return _fail(error, loud)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python complains once more at exit
        return BROKEN_PIPE
    except OSError as error:  # standard output on a full disk, and the like
        return _fail(WhyidleError("The system refused.", why=f"{error}."), loud)
    except MemoryError:
        hint = "Use a machine with more memory, or record fewer steps."
        return _fail(WhyidleError("Memory ran out.", hint=hint), loud)
    except Exception as error:  # the one boundary: whatever is left is a mistake of ours
        what = f"whyidle failed: {type(error).__name__}: {error}."
        hint = "Please report it, with the output of the same command and --verbose."
        return _fail(WhyidleError(what, why="This is a mistake in whyidle.", hint=hint), loud)


def _command(argv: list[str]) -> int:
    _know_verb(argv)
    args, unknown = parser().parse_known_args(argv)
    if unknown:
        told = f"Unrecognized arguments: {' '.join(unknown)}."
        raise UsageError(told, hint=f"whyidle {args.verb} --help")
    args.typed = argv
    status: int = args.run(args)
    if not getattr(args, "quiet", False):
        _warn_about_plugins()
    return status


def _warn_about_plugins() -> None:
    """Name the plug-ins of other packages that could not be loaded, where any were looked for."""
    from whyidle import catalog

    for error in catalog.broken_plugins():
        print(_CONTROL.sub("", f"whyidle: {error}"), file=sys.stderr)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = _Parser(
        prog="whyidle",
        description="Why is my GPU idle, or busy for nothing, and how do I fix it?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"whyidle {__version__}")
    verbs = root.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="verb")
    for verb in VERBS:
        module = import_module(f"whyidle.cli.{verb}")
        title, _, text = (module.__doc__ or "").partition("\n\n")
        sub = verbs.add_parser(
            verb,
            help=title.rstrip("."),
            description=f"{title}\n\n{text}".strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # or words of a watched command would be taken for ours
        )
        sub.add_argument("--verbose", action="store_true", help="show a traceback with an error")
        module.prepare(sub)
        sub.set_defaults(run=module.run)
    return root


def _know_verb(argv: list[str]) -> None:
    """Say what was meant where the first word is no verb; argparse only lists the choices."""
    word = argv[0] if argv else ""
    if not word:
        raise UsageError("A command is missing.", why=f"One of {', '.join(VERBS)}.", hint=_HELP)
    if word.startswith("-") or word in VERBS:
        return
    close = difflib.get_close_matches(word, VERBS, n=1)
    hint = f"whyidle {close[0]}" if close else _HELP
    if Path(word).exists():
        hint = f"whyidle explain {word}"
    raise UsageError(f"There is no command {word!r}.", why=f"One of {', '.join(VERBS)}.", hint=hint)


_HELP = "whyidle --help"


def _forgive_terminals() -> None:
    """A name that the terminal's encoding lacks is shown escaped, not answered with an error; what
    is written to a closed stream is lost."""
    if sys.stdout is None or sys.stderr is None:
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until we exit
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _fail(error: WhyidleError, loud: bool) -> int:
    if loud:
        import traceback

        traceback.print_exc()
    lines = [f"whyidle: {error.what}"]
    lines += [f"    why: {error.why}"] if error.why else []
    lines += [f"    try: {error.hint}"] if error.hint else []
    print(_CONTROL.sub("", "\n".join(lines)), file=sys.stderr)
    return error.exit_code
