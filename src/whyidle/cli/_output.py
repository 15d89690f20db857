"""Puts an answer where it was asked for: terminal, files, store; and holds the gate."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from whyidle.cli._options import STDOUT
from whyidle.cli._store import store_of
from whyidle.errors import CatalogError, GateError, InputError, OutputError, StoreError, UsageError
from whyidle.store.atomic_write import write_atomic

if TYPE_CHECKING:
    from whyidle.exporters._next_steps import NextStep
    from whyidle.exporters._text_page import Colours
    from whyidle.model.diagnosis import Diagnosis

FORMS = ("json", "markdown", "html")
_RANK = {"info": 0, "warning": 1, "critical": 2}


def check_outputs(args: argparse.Namespace, inputs: Sequence[Path] = ()) -> None:
    """Refuse before the work what cannot be written after it.

    Raises:
        UsageError: two things for standard output, or an output that would overwrite an input.
        InputError: the folder of an output does not exist or cannot be written.
    """
    named = list_outputs(args)
    if getattr(args, "perfetto", None) is not None:
        named.append(("perfetto", args.perfetto))
    if sum(target == STDOUT for _, target in named) > 1:
        raise UsageError("Only one output can go to standard output.")
    for form, target in named:
        if form not in FORMS and form != "perfetto":
            _check_exporter(form)
        if target != STDOUT:
            _check_target(form, Path(target), inputs)


def list_outputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """(form, where to write it) of every output that was asked for and is a text."""
    own = [(form, target) for form in FORMS if (target := getattr(args, form, None)) is not None]
    return [*own, *getattr(args, "export", ())]


def _check_exporter(form: str) -> None:
    """Refuse a form that no exporter writes."""
    from whyidle import catalog

    if form not in catalog.list_exporters():
        known = ", ".join(catalog.list_exporters())
        raise UsageError(f"There is no form {form!r}.", why=f"Known: {known}.")
    catalog.load_exporter(form)


def _check_target(form: str, target: Path, inputs: Sequence[Path]) -> None:
    if any(target.exists() and path.exists() and target.samefile(path) for path in inputs):
        raise UsageError(f"--{form} {target} would overwrite what is to be explained.")
    folder = target.parent
    if target.is_dir():
        raise InputError(
            f"Cannot write {target}.", why="It is a folder.", hint=f"--{form} {target / 'name'}"
        )
    if not folder.is_dir():
        raise InputError(
            f"Cannot write {target}.",
            why=f"There is no folder {folder}.",
            hint=f"mkdir -p {folder}",
        )
    if not os.access(folder, os.W_OK):
        raise InputError(f"Cannot write {target}.", why=f"{folder} may not be written to.")


def store_diagnosis(
    args: argparse.Namespace, diagnosis: Diagnosis, *, named: bool = False
) -> str | None:
    """Store the diagnosis, ``named`` by the run's id if so asked, and return that. A store that
    refuses costs a note, no more."""
    if args.no_store:
        return None
    try:
        return store_of(args).add_run(diagnosis, named=named).id
    except StoreError as error:
        print(f"whyidle: not stored: {error.what} {error.why}", file=sys.stderr)
        return None


def write_report(
    args: argparse.Namespace,
    diagnosis: Diagnosis,
    next_steps: Sequence[NextStep],
    stream: TextIO | None = None,
    *,
    stored: str | None = None,
) -> None:
    """Write the outputs that were asked for, and the report to ``stream`` (standard output if
    None) unless that is taken. ``stored`` is what ``whyidle report`` finds the diagnosis by.

    Raises:
        OutputError: an output could not be written; all that could has been.
    """
    named = list_outputs(args)
    refused = [error for each in named if (error := _write_output(args, diagnosis, *each, stored))]
    taken = any(target == STDOUT for _, target in named)
    if not taken and not args.quiet:
        print_report(diagnosis, full=args.all, next_steps=next_steps, stream=stream)
    if refused:
        raise refused[0]


def _write_output(
    args: argparse.Namespace, diagnosis: Diagnosis, form: str, target: str, stored: str | None
) -> OutputError | None:
    """Write an output where it was asked for; returns why it could not be."""
    again = f"; whyidle report {stored} writes what was stored there" if stored else ""
    try:
        write_target(target, _render(diagnosis, form), again)
    except OutputError as error:
        return error
    if target != STDOUT:
        print_note(args, f"wrote {target}")
    return None


def _render(diagnosis: Diagnosis, form: str) -> str:
    """The diagnosis in a form.

    Raises:
        CatalogError: the exporter is of another package, and fails.
    """
    from whyidle import catalog

    exporter = catalog.load_exporter(form)
    try:
        return exporter.render(diagnosis)
    except catalog.FAULTS as error:
        if form in catalog.plugin_names("exporters"):
            raise
        raise CatalogError(
            f"The plug-in {form!r} failed to write the diagnosis.",
            why=f"{type(error).__name__}: {error}.",
            hint="Update the package, or report it to its authors.",
        ) from error


def write_target(target: str, text: str, again: str = "") -> None:
    """Write text to a file or, for ``-``, to standard output. ``again`` completes the advice to
    whoever finds that it cannot be written there.

    Raises:
        OutputError: the file cannot be written.
    """
    if target == STDOUT:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    try:
        write_atomic(Path(target), text.encode())
    except OSError as error:
        raise OutputError(
            f"Cannot write {target}.",
            why=f"{error.strerror or error}.",
            hint=f"Name another place{again}.",
        ) from error


def print_note(args: argparse.Namespace, text: str) -> None:
    """Tell on standard error what was done."""
    if not args.quiet:
        print(text, file=sys.stderr)


def print_report(
    diagnosis: Diagnosis,
    *,
    full: bool,
    next_steps: Sequence[NextStep],
    stream: TextIO | None = None,
) -> None:
    """The report, as wide and colourful as the stream allows."""
    from whyidle.exporters import terminal as exporter

    out = stream or sys.stdout
    text = exporter.render(
        diagnosis,
        width=output_width(),
        colours=stream_colours(out),
        full=full,
        next_steps=next_steps,
    )
    out.write(text)
    out.flush()


def print_text(text: str) -> None:
    """Write to standard output."""
    sys.stdout.write(text)


def output_width() -> int:
    """Columns to use: COLUMNS, the terminal's, or 80 where there is none."""
    return max(40, min(shutil.get_terminal_size((80, 24)).columns, 120))


def stream_colours(stream: TextIO | None = None) -> Colours | None:
    """What a stream (standard output if None) can show; None where it shall be plain."""
    out = stream or sys.stdout
    term = os.environ.get("TERM", "")
    encoding = (out.encoding or "").lower().replace("-", "")
    if "NO_COLOR" in os.environ or term in ("dumb", "") or encoding != "utf8":
        return None
    if not out.isatty():
        return None
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in term else "standard"


def gate_status(args: argparse.Namespace, diagnosis: Diagnosis) -> int:
    """Exit status 0.

    Raises:
        GateError: --fail-on was given and a finding is as severe.
    """
    if args.fail_on is None:
        return 0
    severe = [f for f in diagnosis.findings if _RANK[f.severity] >= _RANK[args.fail_on]]
    if severe:
        raise GateError(
            f"--fail-on {args.fail_on}: {len(severe)} finding{'s' if len(severe) > 1 else ''}, "
            f"first {severe[0].cause}.",
            hint=f"whyidle causes {severe[0].cause}",
        )
    return 0
