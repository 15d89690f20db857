"""Show the diagnosis of a stored run.

RUN is an id from `whyidle runs` or its beginning, `last` (the default), `last~1` (the run before),
or a file written with --json. `last` skips commands that failed before whyidle could measure
anything.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _next_steps, _output
from whyidle.cli._options import add_gate, add_outputs, add_store, store_of

if TYPE_CHECKING:
    from whyidle.model.diagnosis import Diagnosis
    from whyidle.store.entry import Entry


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "run_or_file", nargs="?", default="last", metavar="RUN|FILE", help="the run"
    )
    add_outputs(parser)
    add_store(parser)
    add_gate(parser)


def run(args: argparse.Namespace) -> int:
    """Find the run and render its diagnosis."""
    diagnosis, source = load_stored(args, args.run_or_file)
    _output.check_outputs(args, inputs=[source])
    steps = _next_steps.after_report(diagnosis, args.run_or_file, args.store)
    args.all = True  # the screen was printed when it was made
    _output.write_report(args, diagnosis, steps, stored=args.run_or_file)
    return _output.gate_status(args, diagnosis)


def load_stored(args: argparse.Namespace, name: str) -> tuple[Diagnosis, Path]:
    """Read the diagnosis of a run or file; return it with its path.

    Raises:
        StoreError: there is no such run, or it cannot be read.
    """
    from whyidle.errors import StoreError
    from whyidle.record.recording_diagnosis import diagnose_recording, recording_at
    from whyidle.recordings.explain import document_at
    from whyidle.store.document import read_diagnosis
    from whyidle.store.entry import DIAGNOSIS

    document = document_at(Path(name))
    if document is None and Path(name).is_file():
        raise StoreError(
            f"{name} is not a diagnosis.",
            why="report reads files that were written with --json.",
            hint=f"whyidle explain {_next_steps.shell_text([Path(name)])}",
        )
    if document is None:
        folder = _find_entry(args, name).path
        document = folder / DIAGNOSIS
        if not document.exists() and (recording := recording_at(folder)) is not None:
            return diagnose_recording(recording), document  # still running, or killed
    return read_diagnosis(document), document


def _find_entry(args: argparse.Namespace, name: str) -> Entry:
    store = store_of(args)
    entry, newest = store.find_run(name), store.list_runs()[-1]
    if name == "last" and newest.id != entry.id:
        text = f"skipped the newest run, {newest.id}: it failed before anything was measured"
        _output.print_note(args, text)
    return entry
