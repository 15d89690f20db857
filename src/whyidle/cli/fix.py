"""Try fixes in short trials, keep those proven faster, write a plan and a source patch.

COMMAND is what you type today. It is run several times for a few seconds, as it is and with one fix
at a time; nothing that these runs write is kept, and nothing that they send leaves this machine. A
fix is kept when it is measurably faster and the losses are what they would have been.

It ends with what each fix was predicted to bring and what it brought, with a plan (whyidle run
--plan plan.toml COMMAND runs your job with it, your files as they are) and, where a fix has such a
form, a patch of your own files (git apply).
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
from whyidle.cli._options import add_outputs, add_storage
from whyidle.errors import UsageError

if TYPE_CHECKING:
    from whyidle.engine.trial.loop.optimize import Optimized
    from whyidle.engine.trial.loop.patch_check import PatchCheck
    from whyidle.engine.trial.loop.trial_session import TrialSession
    from whyidle.engine.trial.statistics.startup_cost import RemainingJob

LEAST_S, MOST_S = 20.0, 24 * 3600.0
"""bounds of --budget"""
CLASSES = ("numerics", "convergence")
INTERRUPTED = 130
"""128 plus the signal, as a shell reports it"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whyidle fix [OPTIONS] [--] COMMAND..."
    add_outputs(parser)
    add_storage(parser)
    group = parser.add_argument_group("trials")
    group.add_argument(
        "--budget",
        metavar="TIME",
        type=_parse_budget,
        default=300.0,
        help="about how long all of it may take: 90s, 5m, 1h (default: 5m)",
    )
    group.add_argument(
        "--left",
        metavar="LENGTH",
        type=_parse_left,
        help="how much of the job is still to run: 20000 (steps), 90m, 6h, 3d; a fix that costs "
        "more at its start than it brings in that is not kept",
    )
    group.add_argument(
        "--allow",
        metavar="CLASS",
        type=_parse_consent,
        default=frozenset(),
        help="also try fixes that change the precision of numbers (numerics) or what is learned "
        "(convergence); several: --allow numerics,convergence",
    )
    group.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="go on where something that the job does cannot be held back: with --network, behind "
        "a launcher (srun, ssh, docker, ...), or where the system does not hold back all of it",
    )
    group.add_argument(
        "--network",
        action="store_true",
        help="let the trials reach the network (data sets, hubs); uploads are real: a job that "
        "pushes checkpoints somewhere would overwrite them, so it takes --yes as well",
    )
    group.add_argument(
        "--engine",
        metavar="NAME",
        default="local",
        help="where the trials run: local, this machine (default); ray, a machine of a Ray cluster "
        "that reaches this folder, too",
    )
    group.add_argument(
        "--resources",
        metavar="LIST",
        type=_parse_resources,
        default={},
        help="with --engine ray: what a trial holds of the cluster, such as cpu=8,gpu=1 (default: "
        "all of one machine)",
    )
    group.add_argument(
        "--plan", metavar="PATH", type=Path, help="the plan (default: a new plan.toml here)"
    )
    group.add_argument(
        "--patch", metavar="PATH", type=Path, help="the patch (default: a new fix.patch here)"
    )
    group.add_argument(
        "--price",
        metavar="PRICE",
        type=_parse_price,
        help="what a GPU costs an hour, to tell what is saved",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _parse_budget(text: str) -> float:
    try:
        told = _durations.parse_seconds(text)
        seconds = float(text) if told is None else told
    except ValueError:
        seconds = -1.0
    if not LEAST_S <= seconds <= MOST_S:
        raise argparse.ArgumentTypeError(f"must be 20s to 24h, not {text!r}: {_durations.FORMS}")
    return seconds


def _parse_left(text: str) -> RemainingJob:
    from whyidle.engine.trial.statistics.startup_cost import RemainingJob

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


def _parse_resources(text: str) -> dict[str, float]:
    try:
        found = {name: float(count) for name, count in (one.split("=") for one in text.split(","))}
    except ValueError:
        found = {}
    if not found or not all(name and 0 < count < 1e6 for name, count in found.items()):
        raise argparse.ArgumentTypeError(f"must be such as cpu=8,gpu=1, not {text!r}")
    return found


def _parse_consent(text: str) -> frozenset[str]:
    named = frozenset(text.split(","))
    if not named <= set(CLASSES):
        raise argparse.ArgumentTypeError(f"must be {' or '.join(CLASSES)}, not {text!r}")
    return named


def run(args: argparse.Namespace) -> int:
    """Try fixes on the command, store the result and report it."""
    from whyidle.cli._fix_progress import FixProgress
    from whyidle.engine.recording.launcher import command_of
    from whyidle.engine.trial.executor import TrialTerms, start_executor
    from whyidle.engine.trial.loop.candidates import SAFE
    from whyidle.engine.trial.loop.optimize import STOPPED
    from whyidle.engine.trial.loop.trial_session import TrialSession

    if not args.command:
        raise UsageError("There is no command to fix.", hint="whyidle fix python train.py")
    command = command_of(args.command)
    _output.check_outputs(args)
    files = _fix_results.choose_outputs(args)
    engine = start_executor(
        args.engine, TrialTerms(command, args.network, args.yes, args.resources)
    )
    folder = Path(tempfile.mkdtemp(prefix="whyidle-fix-"))
    try:
        with FixProgress(quiet=args.quiet, budget_s=args.budget) as progress:
            healing = TrialSession(
                command=command,
                folder=folder,
                engine=engine,
                budget_s=args.budget,
                allowed=SAFE | args.allow,
                voice=progress,
                left=args.left,
            )
            found = _collect_outcome(healing)
            handed = _make_handover(healing, found)
        results = _fix_results.Results(found, handed, engine.executor_notes())
        _fix_results.report_results(args, results, command, files)
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    return INTERRUPTED if found.stopped == STOPPED else 0


def _collect_outcome(healing: TrialSession) -> Optimized:
    """What trials come to; stopped before the first one, nothing is known that could be told."""
    from whyidle.engine.trial.loop.optimize import optimize

    try:
        return optimize(healing)
    except KeyboardInterrupt:
        print("\nwhyidle: stopped before anything was tried", file=sys.stderr)
        raise


def _make_handover(healing: TrialSession, found: Optimized) -> PatchCheck | None:
    """The patch; where it cannot be made, what was found before must not be lost with it."""
    from whyidle.engine.trial.loop.patch_check import hand_over

    try:
        return hand_over(healing, found, Path.cwd())
    except KeyboardInterrupt:
        print("whyidle: no patch: it was stopped before", file=sys.stderr)
    except Exception as error:  # of all mistakes of ours this one would be the dearest
        print(f"whyidle: no patch: {type(error).__name__}: {error}", file=sys.stderr)
    return None
