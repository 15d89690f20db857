"""Observe a process that is already running, and report why its device waits.

    whyidle attach 4711                  observe for eight seconds, then report
    whyidle attach 4711 --seconds 30     observe for longer: rarer causes, smaller errors
    whyidle attach 4711 --html why.html  the same report as a page

For a process that hangs, it shows where each thread waits, and for what. The process and its loader
workers are sampled from outside, 50 times a second, without stopping them. The report lists what
could not be observed. It needs py-spy: pip install 'whyidle[attach]'.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from whyidle.cli import _next_steps, _output
from whyidle.cli._options import add_gate, add_outputs, add_storage, parse_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from whyidle.model.diagnosis import Diagnosis

SECONDS = 8.0
LEAST_S, MOST_S = 3.0, 600.0


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("pid", type=_parse_pid, metavar="PID", help="process id")
    parser.add_argument(
        "--seconds",
        type=_parse_seconds,
        default=SECONDS,
        metavar="S",
        help=f"how long to observe (default: {SECONDS:g})",
    )
    add_outputs(parser)
    add_storage(parser)
    add_gate(parser)


def _parse_pid(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"must be a process id, not {text!r}")
    return int(text)


def _parse_seconds(text: str) -> float:
    return parse_seconds(text, LEAST_S, MOST_S)


def run(args: argparse.Namespace) -> int:
    """Look, store the diagnosis, and report it."""
    from whyidle.machine.attachment.attach import attach_to
    from whyidle.machine.attachment.target_process import find_target

    _output.check_outputs(args)
    target = find_target(args.pid)
    if (
        target.recording is not None
        and (known := _diagnose_recorded(args, target.recording)) is not None
    ):
        diagnosis = known
    else:
        _output.print_note(args, f"observing process {args.pid} for {args.seconds:g} s")
        diagnosis = attach_to(target, args.seconds)
    stored = _output.store_diagnosis(args, diagnosis, named=True)
    steps = _next_steps.next_steps(diagnosis, [], stored and "last", args.store)
    _output.write_report(args, diagnosis, steps, stored=stored)
    return _output.gate_status(args, diagnosis)


def _diagnose_recorded(args: argparse.Namespace, recording: Path) -> Diagnosis | None:
    """The diagnosis of the ``whyidle run`` on the process; None if it cannot be read."""
    from whyidle.errors import WhyidleError
    from whyidle.record.recording_diagnosis import diagnose_recording

    try:
        diagnosis = diagnose_recording(recording)
    except WhyidleError as error:
        text = f"whyidle run watches process {args.pid}, but its recording gives nothing yet"
        _output.print_note(args, f"{text}: {error.what} Observing it from outside instead.")
        return None
    _output.print_note(
        args, f"whyidle run watches process {args.pid} already: this is its recording so far"
    )
    return diagnosis
