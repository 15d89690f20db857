"""Watch a training command, then say why its device idles.

COMMAND is what you type today: train.py --lr 1, python -m pkg.train, torchrun ..., a shell script.
It runs unmodified; its exit status, its output and its signals are its own. Our report goes to
standard error, after it has ended.

It has been proven on jobs that train on the CPU; on a GPU it has not been run yet.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _job_reports, _output
from whyidle.cli._options import STDOUT, add_outputs, add_storage
from whyidle.cli._store import store_of
from whyidle.errors import OutputError, StoreError, UsageError, WhyidleError

if TYPE_CHECKING:
    from whyidle.engine.recording.launcher import Beside
    from whyidle.engine.recording.monitor import Monitor
    from whyidle.model.plan import FixPlan
    from whyidle.store.entry import Entry


LEAST_S, MOST_S = 0.05, 3600.0
"""bounds of --interval"""
UNAPPLIED = "; the plan is not applied"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whyidle run [OPTIONS] [--] COMMAND..."
    add_outputs(parser, free=False)
    add_storage(parser)
    group = parser.add_argument_group("watching")
    group.add_argument(
        "--interval",
        metavar="SECONDS",
        type=_parse_seconds,
        help="time between reads of the host and the GPUs (default: 0.5, and more where reading "
        "would take over 1 %% of a core)",
    )
    group.add_argument(
        "--steps",
        metavar="N",
        type=_parse_count,
        help="stop watching after N optimizer steps of a process; the job goes on",
    )
    group.add_argument(
        "--stop-after",
        metavar="N",
        type=_parse_count,
        help="end the job after N optimizer steps, as Ctrl-C would: each training process "
        "interrupts itself at the end of that step; the status is the job's own, usually 130",
    )
    group.add_argument(
        "--profile",
        choices=("auto", "off", "look"),
        default="auto",
        help="record every operator of a few steps now and then: once they are steady, and when "
        "they have changed, as long as it takes under 1 %% of the time (auto, the default); look: "
        "soon, whatever it takes, for a short run that is made to be looked at",
    )
    group.add_argument(
        "--plan",
        metavar="PATH",
        type=Path,
        help="apply the fixes of a plan that whyidle fix wrote, your files as they are; what took "
        "hold and what did not is told at the end",
    )
    group.add_argument(
        "--no-live", action="store_true", help="no view at the bottom of the terminal meanwhile"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number, 1 or more, not {text!r}")
    return int(text)


def _parse_seconds(text: str) -> float:
    with suppress(ValueError):
        if LEAST_S <= float(text) <= MOST_S:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be {LEAST_S:g} to {MOST_S:g} seconds, not {text!r}")


def run(args: argparse.Namespace) -> int:
    """Run the command; then read, diagnose, store, say. Returns the command's own status; where
    that is 0 and an output could not be written, ours."""
    from whyidle.engine.recording.launcher import WatchLimits, command_of, run_recorded
    from whyidle.engine.recording.recording_diagnosis import note_end

    command = command_of(args.command)
    _output.check_outputs(args)
    if any(target == STDOUT for _, target in _output.list_outputs(args)):
        raise UsageError(
            "Standard output belongs to the command.", hint="whyidle run --json PATH ..."
        )
    plan = _load_plan(args, command)
    if (why := _why_not()) is not None:
        print(f"whyidle: {why}{UNAPPLIED if plan else ''}", file=sys.stderr)
        return run_recorded(command, None).status
    ours = 0
    with _recording_folder(args, command) as (recording, entry):
        run_id = entry.id if entry else "unstored"
        if recording:
            note_end(recording, run_id, command, None)
        limits = WatchLimits(steps=args.steps, stop_after=args.stop_after, profile=args.profile)
        variables = _plan_environment(plan, recording)
        ended = run_recorded(command, recording, limits, _companions(args, recording), variables)
        if recording:
            note_end(recording, run_id, command, ended)
            ours = _report_end(args, recording, entry)
    return ended.status or ours


def _load_plan(args: argparse.Namespace, command: Sequence[str]) -> FixPlan | None:
    """The plan that was named. One that cannot be applied is an error before anything starts."""
    from whyidle.catalog import load_knobs
    from whyidle.store.plan_file import read_plan

    plan = read_plan(args.plan, load_knobs()) if args.plan else None
    for doubt in plan.command_mismatches(command) if plan else ():
        print(f"whyidle: {doubt}", file=sys.stderr)
    return plan


def _plan_environment(plan: FixPlan | None, recording: Path | None) -> dict[str, str]:
    """The variables that have the probe apply the plan."""
    from whyidle.engine.recording.plan_channel import write_request

    if plan is None:
        return {}
    try:
        if recording is not None:
            return write_request(plan.settings, plan.previous_settings, recording)
        why = "nothing is watched"
    except OSError as error:
        why = str(error)
    print(f"whyidle: {why}{UNAPPLIED}", file=sys.stderr)
    return {}


def _companions(args: argparse.Namespace, recording: Path | None) -> list[Beside]:
    """What goes on while the command runs."""
    from whyidle.cli import _live_view
    from whyidle.engine.recording.recording_diagnosis import start_monitor

    if recording is None:
        return []
    reading: list[Monitor] = []

    def read(pid: int) -> Monitor:
        reading.append(start_monitor(recording, pid, args.interval))
        return reading[0]

    def show(_: int) -> _live_view.Live:
        return _live_view.Live(recording, lambda: reading[0] if reading else None)

    return [read, show] if _live_view.is_wanted(args.quiet, args.no_live) else [read]


def _why_not() -> str | None:
    """Why the command is run without being watched, where it is."""
    from whyidle.engine.recording.recording_diagnosis import is_running

    if os.environ.get("WHYIDLE_DISABLE") == "1":
        return "not watched: WHYIDLE_DISABLE=1"
    outer = os.environ.get("WHYIDLE_RUN")
    if outer and is_running(Path(outer)):
        return "not watched here: an outer whyidle run watches already"
    return None


def _report_end(args: argparse.Namespace, recording: Path, entry: Entry | None) -> int:
    """Say what was found; returns a status of ours where the evidence, or an output that was asked
    for, could not be written: whoever goes on with it must know. Nothing else that happens to us
    here is told by the status, for that is the command's."""
    asked = bool(_output.list_outputs(args))
    try:
        _job_reports.report_jobs(args, recording, entry)
    except OutputError as error:
        _print_complaint(f"whyidle: {error}")
        return error.exit_code
    except WhyidleError as error:
        _print_complaint(f"whyidle: {error}")
    except KeyboardInterrupt:
        _print_complaint("whyidle: interrupted before the diagnosis was ready", entry)
    except Exception as error:  # a mistake of ours must not become the command's failure
        _print_complaint(f"whyidle: no diagnosis: {type(error).__name__}: {error}", entry)
    else:
        return 0
    return int(asked)


def _print_complaint(text: str, entry: Entry | None = None) -> None:
    with suppress(OSError, ValueError):  # standard error is closed
        print(text, file=sys.stderr)
        if entry is not None:
            print(f"    the evidence is kept: whyidle report {entry.id}", file=sys.stderr)


@contextmanager
def _recording_folder(
    args: argparse.Namespace, command: list[str]
) -> Iterator[tuple[Path | None, Entry | None]]:
    """Where the probe writes: the store, or a folder that is thrown away, or nowhere at all."""
    from whyidle.store.entry import RECORDING

    if not args.no_store:
        store = store_of(args)
        try:
            entry = store.begin_run(command)
        except StoreError as error:
            print(f"whyidle: not stored: {error.what} {error.why}", file=sys.stderr)
        else:
            try:
                yield (entry.path / RECORDING).absolute(), entry
            except UsageError:  # it never started
                with suppress(StoreError):
                    store.delete_run(entry)
                raise
            return
    try:
        scratch = tempfile.mkdtemp(prefix="whyidle-")
    except OSError as error:
        print(f"whyidle: not watched: no folder can be written: {error}", file=sys.stderr)
        yield None, None
        return
    try:
        yield Path(scratch), None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
