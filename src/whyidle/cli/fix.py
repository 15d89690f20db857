"""Try fixes in short trials, keep those proven faster, and write a plan and a source patch.

COMMAND is the command that you use today. whyidle runs it several times for a few seconds, with and
without one fix at a time. These runs are isolated: their files are discarded, and they cannot reach
the network. A fix is kept if the job is measurably faster with it and the losses stay equivalent.

The report shows the predicted and the measured gain of each fix. whyidle writes a plan (whyidle run
--plan plan.toml COMMAND applies it without changing your files) and, for fixes that can be written
into source text, a patch (git apply).
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _durations, _fix_results, _output
from whyidle.cli._options import add_option, add_outputs, add_storage
from whyidle.errors import INTERRUPTED, UsageError

if TYPE_CHECKING:
    from whyidle.fix.loop.optimize import Optimized
    from whyidle.fix.loop.patch_check import PatchCheck
    from whyidle.fix.loop.trial_session import TrialSession
    from whyidle.fix.statistics.startup_cost import RemainingJob

LEAST_S, MOST_S = 20.0, 24 * 3600.0
"""bounds of --budget"""
CLASSES = ("numerics", "convergence")


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whyidle fix [OPTIONS] [--] COMMAND..."
    add_outputs(parser)
    add_storage(parser)
    group = parser.add_argument_group("trials")
    detail = ", about: 90s, 5m, 1h (default: 5m)"
    add_option(group, "--budget", detail, type=_parse_budget, default=300.0)
    group.add_argument(
        "--left",
        metavar="LENGTH",
        type=_parse_left,
        help="remaining length of the job: 20000 (steps), 90m, 6h, 3d; fixes whose start-up cost "
        "exceeds what they save in that time are not kept",
    )
    group.add_argument(
        "--allow",
        metavar="CLASS",
        type=_parse_consent,
        default=frozenset(),
        help="also try fixes that lower numeric precision (numerics) or may change learning "
        "(convergence); separate several with commas",
    )
    add_option(
        group,
        "--yes",
        " even if the trials cannot be fully isolated: with --network, behind a launcher (srun, "
        "ssh, docker, ...), or if this system cannot isolate them",
    )
    group.add_argument(
        "--network",
        action="store_true",
        help="allow network access in trials (datasets, hubs); uploads then take effect and may "
        "overwrite checkpoints, so --yes is required as well",
    )
    group.add_argument(
        "--engine",
        metavar="NAME",
        default="local",
        help="where trials run: local (this machine, default) or ray (a machine of a Ray cluster "
        "that shares this folder)",
    )
    group.add_argument(
        "--resources",
        metavar="LIST",
        type=parse_resources,
        default={},
        help="with --engine ray: resources of one trial, such as cpu=8,gpu=1 (default: a whole "
        "machine)",
    )
    group.add_argument(
        "--write-plan", metavar="PATH", type=Path, help="file for the plan (default: plan.toml)"
    )
    group.add_argument(
        "--patch", metavar="PATH", type=Path, help="file for the patch (default: fix.patch)"
    )
    add_option(group, "--price", ", to report the savings", type=_parse_price)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _parse_budget(text: str) -> float:
    try:
        seconds = _durations.parse_seconds(text) or float(text)
    except ValueError:
        seconds = -1.0
    if not LEAST_S <= seconds <= MOST_S:
        raise argparse.ArgumentTypeError(f"must be 20s to 24h, not {text!r}: {_durations.FORMS}")
    return seconds


def _parse_left(text: str) -> RemainingJob:
    from whyidle.fix.statistics.startup_cost import RemainingJob

    try:
        seconds = _durations.parse_seconds(text)
        value = float(text) if seconds is None else seconds
    except ValueError:
        seconds, value = None, -1.0
    if not 0.0 < value < math.inf:
        forms = f"a number of steps (20000), or a time: {_durations.FORMS}"
        raise argparse.ArgumentTypeError(f"must be {forms}, not {text!r}")
    return RemainingJob(steps=value) if seconds is None else RemainingJob(seconds=seconds)


def _parse_price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0.0 <= price < 1e6:
        raise argparse.ArgumentTypeError(f"must be a number of 0 or more, not {text!r}")
    return price


def parse_resources(text: str) -> dict[str, float]:
    """Read a list such as ``cpu=8,gpu=1``. Raises ArgumentTypeError."""
    try:
        counts = {name: float(n) for name, n in (item.split("=") for item in text.split(","))}
    except ValueError:
        counts = {}
    if not counts or not all(name and 0 < count < 1e6 for name, count in counts.items()):
        raise argparse.ArgumentTypeError(f"must look like cpu=8,gpu=1, not {text!r}")
    return counts


def _parse_consent(text: str) -> frozenset[str]:
    classes = frozenset(text.split(","))
    if not classes <= set(CLASSES):
        raise argparse.ArgumentTypeError(f"must be {' or '.join(CLASSES)}, not {text!r}")
    return classes


def run(args: argparse.Namespace) -> int:
    """Try fixes on the command, store the result and report it."""
    from whyidle.cli._fix_progress import FixProgress
    from whyidle.fix.executor import TrialTerms, start_executor
    from whyidle.fix.loop.candidates import SAFE
    from whyidle.fix.loop.optimize import STOPPED
    from whyidle.fix.loop.trial_session import TrialSession
    from whyidle.record.launcher import command_of

    if not args.command:
        raise UsageError("No command was given.", hint="whyidle fix python train.py")
    command = command_of(args.command)
    _output.check_outputs(args)
    files = _fix_results.choose_outputs(args)
    engine = start_executor(
        args.engine, TrialTerms(command, args.network, args.yes, args.resources)
    )
    folder = Path(tempfile.mkdtemp(prefix="whyidle-fix-"))
    try:
        with FixProgress(quiet=args.quiet, budget_s=args.budget) as progress:
            session = TrialSession(
                command=command,
                folder=folder,
                executor=engine,
                budget_s=args.budget,
                allowed=SAFE | args.allow,
                listener=progress,
                remaining_job=args.left,
            )
            outcome = _run_trials(session)
            check = _make_patch(session, outcome)
        results = _fix_results.Results(outcome, check, engine.executor_notes())
        _fix_results.report_results(args, results, command, files)
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    return INTERRUPTED if outcome.stopped == STOPPED else 0


def _run_trials(session: TrialSession) -> Optimized:
    from whyidle.fix.loop.optimize import optimize

    try:
        return optimize(session)
    except KeyboardInterrupt:
        print("\nwhyidle: interrupted before the first trial", file=sys.stderr)
        raise


def _make_patch(session: TrialSession, outcome: Optimized) -> PatchCheck | None:
    """Make and check the patch. A failure here must not lose the results of the trials."""
    from whyidle.fix.loop.patch_check import hand_over

    try:
        return hand_over(session, outcome, Path.cwd())
    except KeyboardInterrupt:
        print("whyidle: no patch: interrupted", file=sys.stderr)
    except Exception as error:
        print(f"whyidle: no patch: {type(error).__name__}: {error}", file=sys.stderr)
    return None
