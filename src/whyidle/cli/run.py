"""Watch a training command and report why its device idles.

COMMAND is the command that you use today: train.py --lr 1, python -m pkg.train, torchrun ..., or a
shell script. It runs unmodified and keeps its exit status, output and signals. whyidle writes its
report to standard error when the command has ended.

This command has been tested on jobs that train on the CPU, and not yet on a GPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from whyidle.cli import _job_reports, _output
from whyidle.cli._options import (
    OMITTED,
    STDOUT,
    add_option,
    add_outputs,
    add_prometheus,
    add_storage,
    parse_count,
    store_of,
)
from whyidle.errors import OutputError, StoreError, UsageError, WhyidleError

if TYPE_CHECKING:
    from whyidle.machine.watch.run_publishing import RunPublishing
    from whyidle.model.diagnosis import Diagnosis
    from whyidle.model.plan import FixPlan
    from whyidle.record.launcher import Beside, WatchLimits
    from whyidle.record.live_state import LiveWatch
    from whyidle.record.monitor import Monitor
    from whyidle.store.entry import Entry


LEAST_S, MOST_S = 0.05, 3600.0
"""bounds of --interval"""
UNAPPLIED = "; the plan is not applied"


LOOKS = ("profile", "memory", "model", "ranks")
ALL = "all"
"""what ``--look`` means where no word follows"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whyidle run [OPTIONS] [--] COMMAND..."
    add_outputs(parser)
    add_storage(parser)
    group = parser.add_argument_group("watching")
    add_option(
        group,
        "--interval",
        " of host and GPU (default: 0.5, longer if reading would take more than 1 %% of a core)",
        type=_parse_seconds,
    )
    group.add_argument(
        "--steps",
        metavar="N",
        type=parse_count,
        help="stop watching each process after N optimizer steps; the job continues",
    )
    detail = ", at the end of that step; the exit status is the command's, usually 130"
    add_option(group, "--stop-after", detail, type=parse_count)
    group.add_argument(
        "--profile",
        choices=("auto", "off"),
        default="auto",
        help="record three steps with the framework's profiler: auto (default): once step times "
        "are steady and when they change, in at most 1 %% of the run time (5 %% the first time); "
        "off: never; --look profile records them immediately",
    )
    look = group.add_argument(
        "--look",
        metavar="WHAT",
        type=_parse_look,
        action="append",
        default=[],
        help="measure in more detail, at the cost of some steps: profile (every operator of three "
        "steps), memory (what occupies it, and what other batch sizes need), model (where its "
        "time goes, and what other layers would gain), ranks (when gradients are ready, for "
        "whyidle scale), or all of these if no word follows; results stay the same; may be "
        "repeated",
    )
    OMITTED[look] = (LOOKS, ALL)
    group.add_argument(
        "--for",
        metavar="MEMORY",
        dest="memory_for",
        type=_parse_memory,
        help="with --look memory: report whether the job would fit on a device such as 24GB, "
        "h100, a100-40gb or rtx4090 (even if it runs on a CPU now), with which batch and on how "
        "many ranks; ends the job after 4 steps, or the smaller last batch of an epoch where its "
        "peak is needed and within a minute, unless --stop-after is given",
    )
    add_option(group, "--plan", "; the report lists which ones took effect", type=Path)
    group.add_argument(
        "--no-live", action="store_true", help="no live view at the bottom of the terminal"
    )
    add_prometheus(parser)
    group.add_argument(
        "--track",
        action="store_true",
        help="add whyidle's figures to the runs that the job itself opens in MLflow, Weights & "
        "Biases and TensorBoard; off by default, since whyidle opens no connection",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _parse_memory(text: str) -> int:
    from whyidle.analysis.device.device_peaks import MEMORY, memory_of

    if (size := memory_of(text)) is None:
        names = ", ".join(sorted(MEMORY))
        raise argparse.ArgumentTypeError(f"must be like 24GB, or one of {names}; not {text!r}")
    return size


def _parse_look(text: str) -> str:
    if text not in (*LOOKS, ALL):
        raise argparse.ArgumentTypeError(f"must be {', '.join(LOOKS[:-1])} or {LOOKS[-1]}")
    return text


def _read_limits(args: argparse.Namespace) -> WatchLimits:
    from whyidle.record.launcher import WatchLimits as Limits  # it costs --help milliseconds

    looks = {look for look in LOOKS if {look, ALL} & set(args.look)}
    looks |= {"memory"} if args.memory_for else set()
    profile: Literal["auto", "off", "look"] = "look" if "profile" in looks else args.profile
    others = tuple(sorted(looks - {"profile"}))
    return Limits(args.steps, args.stop_after, profile, others, args.memory_for)


def _parse_seconds(text: str) -> float:
    with suppress(ValueError):
        if LEAST_S <= float(text) <= MOST_S:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be {LEAST_S:g} to {MOST_S:g} seconds, not {text!r}")


def run(args: argparse.Namespace) -> int:
    """Run the command, then diagnose it, store and report the diagnosis. Returns the command's exit
    status, or 1 if that is 0 and an output could not be written."""
    from whyidle.record.launcher import command_of, run_recorded
    from whyidle.record.recording_diagnosis import note_end

    command = command_of(args.command)
    _output.check_outputs(args)
    plan = _load_plan(args, command)
    if (why := _reason_not_to_watch()) is not None:
        print(f"whyidle: {why}{UNAPPLIED if plan else ''}", file=sys.stderr)
        return run_recorded(command, None).status
    report_status = 0
    with _recording_folder(args, command) as (recording, entry):
        run_id = entry.id if entry else "unstored"
        if recording:
            note_end(recording, run_id, command, None)
        limits = _read_limits(args)
        variables = _plan_environment(plan, recording)
        follow = _share_follower(recording) if recording else None
        publishing = _open_publishing(args, recording, follow)
        beside = _companions(args, recording, follow)
        if publishing is not None:
            variables |= publishing.variables()
            beside.append(publishing.start)
        with _free_stdout(args):
            ended = run_recorded(command, recording, limits, beside, variables)
        if recording:
            note_end(recording, run_id, command, ended)
            report_status, diagnosis = _report_end(args, recording, entry)
            framework = diagnosis.run.framework if diagnosis else None
            if limits.looks and framework not in (None, "pytorch") and not args.quiet:
                print("whyidle: --look measures only PyTorch jobs", file=sys.stderr)
            if publishing is not None:
                publishing.finish(diagnosis)
    return ended.status or report_status


@contextmanager
def _free_stdout(args: argparse.Namespace) -> Iterator[None]:
    """While the command runs, send its standard output to standard error if whyidle's own goes to
    standard output (``--json -``)."""
    if all(target != STDOUT for _, target in _output.list_outputs(args)):
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _load_plan(args: argparse.Namespace, command: Sequence[str]) -> FixPlan | None:
    from whyidle.catalog import load_knobs
    from whyidle.store.plan_file import read_plan

    plan = read_plan(args.plan, load_knobs()) if args.plan else None
    for warning in plan.command_mismatches(command) if plan else ():
        print(f"whyidle: {warning}", file=sys.stderr)
    return plan


def _plan_environment(plan: FixPlan | None, recording: Path | None) -> dict[str, str]:
    from whyidle.record.plan_channel import write_request

    if plan is None:
        return {}
    try:
        if recording is not None:
            return write_request(plan.settings, plan.previous_settings, recording)
        why = "the command is not watched"
    except OSError as error:
        why = str(error)
    print(f"whyidle: {why}{UNAPPLIED}", file=sys.stderr)
    return {}


def _companions(
    args: argparse.Namespace, recording: Path | None, follow: Callable[[], LiveWatch] | None
) -> list[Beside]:
    """The monitor, the live view and the news for who watches, while the command runs."""
    from whyidle.cli import _live_view
    from whyidle.machine.watch.live_news import NewsDesk
    from whyidle.record.recording_diagnosis import start_monitor

    if recording is None or follow is None:
        return []
    monitors: list[Monitor] = []

    def start_reading(pid: int) -> Monitor:
        monitors.append(start_monitor(recording, pid, args.interval))
        return monitors[0]

    def start_view(_: int) -> _live_view.Live:
        return _live_view.Live(follow, lambda: monitors[0] if monitors else None)

    wants_view = _live_view.is_wanted(args.quiet, args.no_live)
    views = [start_view] if wants_view else []
    return [start_reading, *views, lambda _: NewsDesk(recording, follow)]


def _share_follower(recording: Path) -> Callable[[], LiveWatch]:
    """Makes one state of the recording for all threads that show it."""
    lock, made = threading.Lock(), list["LiveWatch"]()

    def follow() -> LiveWatch:
        from whyidle.record.live_state import LiveWatch

        with lock:
            if not made:
                made.append(LiveWatch(recording))
            return made[0]

    return follow


def _open_publishing(
    args: argparse.Namespace,
    recording: Path | None,
    follow: Callable[[], LiveWatch] | None,
) -> RunPublishing | None:
    if recording is None or follow is None or not (args.prometheus or args.track):
        return None
    from whyidle.machine.watch.run_publishing import RunPublishing

    def tell(text: str) -> None:
        print(f"whyidle: {text}", file=sys.stderr)

    return RunPublishing(recording, follow, args.prometheus, tell, track=args.track)


def _reason_not_to_watch() -> str | None:
    from whyidle.record.recording_diagnosis import is_running

    if os.environ.get("WHYIDLE_DISABLE") == "1":
        return "not watched: WHYIDLE_DISABLE=1"
    outer = os.environ.get("WHYIDLE_RUN")
    if outer and is_running(Path(outer)):
        return "not watched: another whyidle run around it watches this command"
    return None


def _report_end(
    args: argparse.Namespace, recording: Path, entry: Entry | None
) -> tuple[int, Diagnosis | None]:
    """Report the run; return a status other than 0 if a requested output could not be written, and
    the longest job's diagnosis. No other failure changes the status, since it belongs to the
    command."""
    diagnosis = None
    try:
        diagnosis = _job_reports.report_jobs(args, recording, entry)
    except OutputError as error:
        _print_failure(f"whyidle: {error}")
        return error.exit_code, diagnosis
    except WhyidleError as error:
        _print_failure(f"whyidle: {error}")
    except KeyboardInterrupt:
        _print_failure("whyidle: interrupted before the diagnosis was ready", entry)
    except Exception as error:  # a bug in whyidle must not become the command's failure
        _print_failure(f"whyidle: no diagnosis: {type(error).__name__}: {error}", entry)
    else:
        return 0, diagnosis
    return int(bool(_output.list_outputs(args))), diagnosis


def _print_failure(text: str, entry: Entry | None = None) -> None:
    with suppress(OSError, ValueError):  # standard error is closed
        print(text, file=sys.stderr)
        if entry is not None:
            print(f"    the recording is stored: whyidle report {entry.id}", file=sys.stderr)


@contextmanager
def _recording_folder(
    args: argparse.Namespace, command: list[str]
) -> Iterator[tuple[Path | None, Entry | None]]:
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
            except UsageError:  # the command did not start
                with suppress(StoreError):
                    store.delete_run(entry)
                raise
            return
    try:
        scratch = tempfile.mkdtemp(prefix="whyidle-")
    except OSError as error:
        print(f"whyidle: not watched: no folder is writable: {error}", file=sys.stderr)
        yield None, None
        return
    try:
        yield Path(scratch), None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
