"""Writes a diagnosis to the terminal, to files and to the store, and checks the gate."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from whyidle.cli._options import STDOUT, store_of
from whyidle.errors import CatalogError, GateError, InputError, OutputError, StoreError, UsageError
from whyidle.store.atomic_write import write_atomic

if TYPE_CHECKING:
    from datetime import datetime

    from whyidle.model.diagnosis import Diagnosis
    from whyidle.reports._next_steps import NextStep
    from whyidle.reports._sections import Part
    from whyidle.reports._text_page import Colours

FORMS = ("json", "markdown", "html")
_RANK = {"info": 0, "warning": 1, "critical": 2}


def check_outputs(args: argparse.Namespace, inputs: Sequence[Path] = ()) -> None:
    """Check before the work that every output can be written.

    Raises:
        UsageError: two outputs go to standard output, or one would overwrite an input.
        InputError: the folder of an output does not exist or cannot be written.
    """
    outputs = list_outputs(args)
    if sum(target == STDOUT for _, target in outputs) > 1:
        raise UsageError("Only one output can go to standard output.")
    for form, target in outputs:
        if form not in FORMS:
            _check_exporter(form)
        if target != STDOUT:
            _check_target(form, Path(target), inputs)


def list_outputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The requested outputs that are texts, as (form, target)."""
    forms = [(form, target) for form in FORMS if (target := getattr(args, form, None)) is not None]
    return [*forms, *getattr(args, "export", ())]


def _check_exporter(form: str) -> None:
    from whyidle import catalog

    if form not in catalog.list_exporters():
        known = ", ".join(catalog.list_exporters())
        raise UsageError(f"Unknown export form {form!r}.", why=f"Forms: {known}.")
    catalog.load_exporter(form)


def _check_target(form: str, target: Path, inputs: Sequence[Path]) -> None:
    if any(target.exists() and path.exists() and target.samefile(path) for path in inputs):
        raise UsageError(f"--{form} {target} would overwrite the input.", hint="Name another file.")
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
        raise InputError(
            f"Cannot write {target}.",
            why=f"The folder {folder} is not writable.",
            hint=f"Choose another folder for --{form}.",
        )


def store_diagnosis(
    args: argparse.Namespace,
    diagnosis: Diagnosis,
    *,
    named: bool = False,
    now: datetime | None = None,
) -> str | None:
    """Store the diagnosis and return the run's id; None if it was not stored. ``named``: write the
    run's id into the document. ``now``: when it ran."""
    if args.no_store:
        return None
    try:
        return store_of(args).add_run(diagnosis, named=named, now=now).id
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
    """Write the requested outputs, and the report to ``stream`` (default: standard output) unless
    an output goes there. ``stored`` is the name of the stored run.

    Raises:
        OutputError: an output could not be written; all others were written.
    """
    outputs = list_outputs(args)
    errors = [error for item in outputs if (error := _write_output(args, diagnosis, *item, stored))]
    uses_stdout = any(target == STDOUT for _, target in outputs)
    if not uses_stdout and not args.quiet:
        print_report(diagnosis, full=args.all, next_steps=next_steps, stream=stream)
    if errors:
        raise errors[0]


def _write_output(
    args: argparse.Namespace, diagnosis: Diagnosis, form: str, target: str, stored: str | None
) -> OutputError | None:
    retry = f", and run whyidle report {stored} to write the stored diagnosis" if stored else ""
    try:
        write_target(target, _render(diagnosis, form), retry)
    except OutputError as error:
        return error
    _tell_written(args, target)
    return None


def _render(diagnosis: Diagnosis, form: str) -> str:
    """Render a diagnosis in a form.

    Raises:
        CatalogError: the exporter of another package fails.
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
            hint="Update the package, or report the error to its authors.",
        ) from error


def write_target(target: str, text: str, retry: str = "") -> None:
    """Write text to a file or, for ``-``, to standard output. ``retry`` completes the hint of the
    error.

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
            hint=f"Choose another file{retry}.",
        ) from error


def write_documents(args: argparse.Namespace, **makers: Callable[[], object]) -> bool:
    """Make and write the forms that were asked for; what is not a text is written as JSON. Return
    whether the terminal still gets a report.

    Raises:
        OutputError: a file cannot be written.
    """
    wanted = [(form, target) for form in makers if (target := getattr(args, form, None))]
    for form, target in wanted:
        made = makers[form]()
        write_target(target, made if isinstance(made, str) else _json_text(made))
        _tell_written(args, target)
    return not getattr(args, "quiet", False) and all(target != STDOUT for _, target in wanted)


def _json_text(document: object) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode()


def _tell_written(args: argparse.Namespace, target: str) -> None:
    if target != STDOUT:
        print_note(args, f"wrote {target}")


def print_note(args: argparse.Namespace, text: str) -> None:
    """Print a note on standard error, unless --quiet."""
    if not getattr(args, "quiet", False):
        print(text, file=sys.stderr)


def print_report(
    diagnosis: Diagnosis,
    *,
    full: bool,
    next_steps: Sequence[NextStep],
    stream: TextIO | None = None,
) -> None:
    """Print the report in the width and the colours that the stream supports. On a ``stream`` that
    a job has written to, a rule stands above it."""
    from whyidle.reports import terminal

    out = stream or sys.stdout
    text = terminal.render(
        diagnosis,
        width=output_width(),
        colours=stream_colours(out),
        full=full,
        next_steps=next_steps,
    )
    if stream is not None:
        line = "-" if stream_colours(out) is None else "─"
        text = f"{line * 3} whyidle {line * (output_width() - 13)}{text}"
    out.write(text)
    out.flush()


def print_parts(parts: Sequence[Part], next_steps: Sequence[NextStep] = ()) -> None:
    """Print a document and the commands to continue with on standard output."""
    from whyidle.reports._sections import Commands
    from whyidle.reports._text_sections import render_text

    whole = [*parts, Commands(next_steps)]
    print_text(render_text(whole, width=output_width(), colours=stream_colours()))


def print_text(text: str) -> None:
    """Write to standard output."""
    sys.stdout.write(text)


def output_width() -> int:
    """Columns of the report: COLUMNS, those of the terminal, or 80."""
    return max(40, min(shutil.get_terminal_size((80, 24)).columns, 120))


def stream_colours(stream: TextIO | None = None) -> Colours | None:
    """The colours of a stream (default: standard output); None for plain text."""
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
    """Return exit status 0 if the gate holds.

    Raises:
        GateError: a finding is at least as severe as --fail-on.
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
