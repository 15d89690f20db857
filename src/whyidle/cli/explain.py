"""Explain from a recorded trace why the GPU was idle.

PATH is a trace of PyTorch's profiler (.json, .json.gz), a profile of TensorFlow or JAX
(.xplane.pb), an export of Nsight Systems (.sqlite), a memory snapshot (.pickle), a dump of NCCL's
flight recorder, its log (NCCL_DEBUG=INFO), a zip or a folder of recordings (one per rank), a
diagnosis written with --json, or the folder of a stored run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from whyidle.cli import _next_steps, _output
from whyidle.cli._options import add_gate, add_outputs, add_storage
from whyidle.cli._progress_line import Progress


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "path", nargs="+", type=Path, metavar="PATH", help="a trace, folder, zip or diagnosis"
    )
    add_outputs(parser)
    add_storage(parser)
    add_gate(parser)


def run(args: argparse.Namespace) -> int:
    """Read the recordings, diagnose them, store and report the diagnosis."""
    from whyidle.recordings.explain import explain_paths

    _output.check_outputs(args, inputs=args.path)
    with Progress(quiet=args.quiet) as progress:
        diagnosis, timelines = explain_paths(
            args.path, progress=progress, stage=progress.show_stage
        )
    stored = "last" if timelines and _output.store_diagnosis(args, diagnosis) else None
    steps = _next_steps.next_steps(diagnosis, args.path, stored, args.store)
    _output.write_report(args, diagnosis, steps, stored=stored)
    return _output.gate_status(args, diagnosis)
