"""Parses the command line, runs one subcommand, and is the one place that reports errors."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from whyidle.cli._options import OMITTED, add_command, arrange_words
from whyidle.errors import INTERRUPTED, UsageError, WhyidleError
from whyidle.version import __version__

VERBS = (
    "run",
    "fix",
    "tune",
    "prepare",
    "explain",
    "report",
    "compare",
    "runs",
    "history",
    "watch",
    "attach",
    "scale",
    "alerts",
    "fleet",
    "serve",
    "causes",
    "doctor",
)
"""order of the help"""
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""escape sequences in a job's output or in file names must not reach the terminal"""

_EPILOG = """\
examples:
  whyidle run python train.py                watch a job and report what its GPU waits for
  whyidle fix python train.py                try the fixes and keep those that are faster
  whyidle explain trace.json.gz              diagnose a recorded trace
  whyidle explain traces/ --html why.html    diagnose a folder of ranks and write an HTML page
  whyidle compare before.json after.json     compare two or more runs
  whyidle watch                              show this machine's GPUs, jobs and why they wait

whyidle help COMMAND describes a command and its options.

exit status: 0 success, 1 error or unusable input, 2 wrong usage, 3 a requested gate failed
"""


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", hint=f"{self.prog} --help")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help in the width of the terminal: paragraphs are wrapped, examples have two columns."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24, width=min(_columns() - 1, 100))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            "\n".join(line for row in part.splitlines() for line in _arrange_example(row, width))
            if "\n  " in f"\n{part}"
            else textwrap.fill(part, width, initial_indent=indent)
            for part in text.split("\n\n")
        )


def _arrange_example(row: str, width: int) -> Iterator[str]:
    """A command, and what it does: wrapped beside it, or on the next line where it is long."""
    command, _, meaning = row.strip().partition("   ")
    column = min(45, width // 2)
    said = textwrap.wrap(meaning.strip(), width - column)
    start = f"{'  ' if row[:1] == ' ' else ''}{command}"
    beside = f"{start:{column}}" if said and len(start) + 2 <= column else ""
    yield beside + said.pop(0) if beside else start
    yield from (" " * column + line for line in said)


class _Completion(argparse.Action):
    """Prints the completion of the command line for a shell, made by shtab."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, values: Any, *__: object
    ) -> None:
        try:
            import shtab
        except ImportError:
            hint = "pip install 'whyidle[completion]'"
            raise UsageError("Completion needs the package shtab.", hint=hint) from None
        for verb in verbs_of(parser).values():
            for action in verb._actions:
                if action.nargs == argparse.REMAINDER:
                    action.metavar, action.help = "FILE", "the command"  # hidden ones are left out
                if action in OMITTED:
                    action.choices = OMITTED[action][0]
                if {"PATH", "FILE", "DIR"} & set(re.split("[^A-Z]+", str(action.metavar))):
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
        print(shtab.complete(parser, values))
        parser.exit()


def _columns() -> int:
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def run(argv: Sequence[str]) -> int:
    """Run one command. Reports every failure in three lines; a traceback needs ``--verbose``."""
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
        return 141  # 128 plus SIGPIPE, as a shell reports it
    except OSError as error:  # standard output on a full disk, and the like
        return _fail(WhyidleError("The operating system refused.", why=f"{error}."), loud)
    except MemoryError:
        hint = "Use a machine with more memory, or record fewer steps."
        return _fail(WhyidleError("Out of memory.", hint=hint), loud)
    except Exception as error:  # the only place that catches everything
        text = f"whyidle failed: {type(error).__name__}: {error}."
        hint = "Report it with the output of the same command with --verbose."
        return _fail(WhyidleError(text, why="This is a bug in whyidle.", hint=hint), loud)


def _command(argv: list[str]) -> int:
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    _check_verb(argv)
    root = parser(argv[:1] if argv[0] in VERBS else VERBS, brief=argv[0] in ("-h", "--help"))
    if (verb := verbs_of(root).get(argv[0])) is not None:
        argv = [argv[0], *arrange_words(argv[1:], verb)]
    args, unknown = root.parse_known_args(argv)
    if unknown:
        text = f"Unknown option or argument: {' '.join(unknown)}."
        raise UsageError(text, hint=f"whyidle {args.verb} {_closest_option(args, unknown[0])}")
    args.typed = argv
    status: int = args.run(args)
    if not getattr(args, "quiet", False):
        from whyidle import catalog

        for error in catalog.broken_plugins():
            print(_CONTROL.sub("", f"whyidle: {error}"), file=sys.stderr)
    return status


def parser(some: Sequence[str] = VERBS, *, brief: bool = False) -> argparse.ArgumentParser:
    """Build the parser of the command line, or of ``some`` verbs, as each takes time to import;
    ``brief`` lists them alone."""
    root = _Parser(
        prog="whyidle",
        description="Why is my GPU idle, or busy for nothing, and how do I fix it?",
        epilog=_EPILOG,
        formatter_class=_Help,
    )
    root.add_argument("--version", action="version", version=f"whyidle {__version__}")
    root.add_argument(
        "--completion",
        action=_Completion,
        choices=("bash", "zsh", "fish"),
        help='print a completion script, such as eval "$(whyidle --completion bash)"; '
        "needs the extra: pip install 'whyidle[completion]'",
    )
    verbs = root.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="verb")
    for verb in some:
        if brief:
            verbs.add_parser(verb, help=_summary_of(verb))
            continue
        module = import_module(f"whyidle.cli.{verb}")
        sub = add_command(verbs, verb, module, _Help)
        sub.set_defaults(run=module.run, options=list(sub._option_string_actions))
    return root


def _summary_of(verb: str) -> str:
    """The first line of a verb's docstring, without importing it."""
    with Path(__file__).with_name(f"{verb}.py").open(encoding="utf-8") as source:
        return source.readline().strip('".\n')


def verbs_of(root: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each verb."""
    subparsers = (a for a in root._actions if isinstance(a, argparse._SubParsersAction))
    return {name: parser for action in subparsers for name, parser in action.choices.items()}


def _closest_option(args: argparse.Namespace, word: str) -> str:
    close = difflib.get_close_matches(word.partition("=")[0], args.options, n=1, cutoff=0.7)
    return close[0] if close and word.startswith("--") else "--help"


def _check_verb(argv: list[str]) -> None:
    word = argv[0] if argv else ""
    if not word:
        raise UsageError("No command was given.", why=f"Commands: {', '.join(VERBS)}.", hint=_HELP)
    if word.startswith("-") or word in VERBS:
        return
    close = difflib.get_close_matches(word, VERBS, n=1)
    hint = f"whyidle {close[0]}" if close else _HELP
    if Path(word).exists():
        hint = f"whyidle {'run' if word.endswith('.py') else 'explain'} {word}"
    raise UsageError(f"Unknown command {word!r}.", why=f"Commands: {', '.join(VERBS)}.", hint=hint)


_HELP = "whyidle --help"


def _forgive_terminals() -> None:
    if sys.stdout is None or sys.stderr is None:
        null = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open until exit
        sys.stdout, sys.stderr = sys.stdout or null, sys.stderr or null
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
