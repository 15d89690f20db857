"""Search hyperparameters of an unedited script, and say which trials were starved.

COMMAND is the command that you use today, with placeholders: python train.py --lr {lr}. Each trial
runs it with other values; trials that fall behind are ended early. The metric is read from the
output or from what the script reports. An interrupted or killed search goes on with --resume.

Placeholders: {NAME} of the space, {config} (path of a JSON file with all values), {trial} (number)
and {folder} (a folder for the trial's files).
"""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _durations, _next_steps, _output
from whyidle.cli._options import STDOUT, add_quiet, add_store
from whyidle.cli.fix import parse_resources
from whyidle.errors import UsageError

if TYPE_CHECKING:
    from whyidle.cli._tune_progress import TuneProgress
    from whyidle.engine.search.ledger import Ledger
    from whyidle.model.plan import FixPlan
    from whyidle.model.search import SearchSetup

TRIALS = 20
"""default number of trials"""
FOLDER = "searches"
INTERRUPTED = 130


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = (
        "whyidle tune --space NAME=VALUES --metric PATTERN [OPTIONS] [--] COMMAND...\n"
        "       whyidle tune --resume FOLDER|last [OPTIONS]"
    )
    group = parser.add_argument_group("search")
    group.add_argument(
        "--space",
        metavar="NAME=VALUES",
        action="append",
        default=[],
        help="lr=log:1e-5..1e-1 (logarithmic range), dropout=0..0.5, layers=2..8 (whole numbers), "
        "batch_size=32,64 (choices), env:NAME=... (an environment variable), or a TOML file",
    )
    group.add_argument(
        "--metric",
        metavar="PATTERN",
        help="'val_loss: {}' is a pattern of a line of the output, {} the number; a NAME without "
        "braces is read from what frameworks print or log, JSON lines or whyidle.report()",
    )
    direction = group.add_mutually_exclusive_group()
    direction.add_argument("--minimize", dest="direction", action="store_const", const="minimize")
    direction.add_argument(
        "--maximize",
        dest="direction",
        action="store_const",
        const="maximize",
        help="default: maximize what is named accuracy, score, reward and the like",
    )
    group.add_argument(
        "--take", choices=("last", "best"), default="last", help="which value of a trial counts"
    )
    group.add_argument(
        "--objective",
        choices=("metric", "rate", "front"),
        default="metric",
        help="metric; rate: its improvement per GPU-hour; front: both metric and GPU-hours",
    )
    group.add_argument("--sampler", choices=("tpe", "random", "grid"), default="tpe")
    group.add_argument(
        "--prune",
        choices=("median", "asha", "none"),
        help="how trials that fall behind are ended early (default: median; with ray: asha)",
    )
    group.add_argument("--seed", type=int, default=0)
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--trials", metavar="N", type=_parse_count, help=f"default: {TRIALS}, or the whole grid"
    )
    limits.add_argument("--for", dest="budget", metavar="TIME", type=_parse_time, help="90s, 2h")
    limits.add_argument("--gpu-hours", metavar="HOURS", type=float)
    limits.add_argument("--trial-time", metavar="TIME", type=_parse_time, help="of one trial")
    limits.add_argument(
        "--grace",
        metavar="TIME",
        type=_parse_time,
        default=10.0,
        help="time between SIGTERM and SIGKILL for a trial that is ended (default: 10s)",
    )
    limits.add_argument(
        "--engine",
        choices=("optuna", "ray"),
        default="optuna",
        help="ray: trials on a Ray cluster, placed by Ray Tune and ended early by ASHA",
    )
    limits.add_argument(
        "--resources",
        metavar="LIST",
        type=parse_resources,
        default={},
        help="with --engine ray: what a trial holds, such as cpu=4,gpu=1 (default: a GPU with its "
        "share of the cores, or a machine without GPUs)",
    )
    limits.add_argument(
        "--parallel",
        metavar="N",
        type=_parse_count,
        help="trials side by side (default: as many as the load of the first one allows)",
    )
    jobs = parser.add_argument_group("trials")
    jobs.add_argument(
        "--plan", metavar="PATH", type=Path, help="run all trials with a plan from whyidle fix"
    )
    jobs.add_argument(
        "--heal",
        metavar="TIME",
        type=_parse_time,
        nargs="?",
        const=300.0,
        help="first let whyidle fix try fixes on the first trial for this time (5m), and run all "
        "trials with those that are faster with equivalent losses",
    )
    jobs.add_argument("--out", metavar="DIR", type=Path, help="folder of the search")
    jobs.add_argument("--resume", metavar="DIR|last", help="go on with a search")
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="PATH|-", help="write the search as JSON")
    output.add_argument("--html", metavar="PATH", help="write a page with pictures")
    output.add_argument("-a", "--all", action="store_true", help="show every trial")
    add_quiet(output)
    add_store(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more, not {text!r}")
    return int(text)


def _parse_time(text: str) -> float:
    try:
        seconds = _durations.parse_seconds(text) or float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 < seconds < 1e8:
        raise argparse.ArgumentTypeError(f"must be a time, not {text!r}: {_durations.FORMS}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Run or resume the search and report it."""
    from msgspec.structs import replace

    from whyidle.cli._tune_progress import TuneProgress
    from whyidle.engine.search.ledger import Ledger, Opened, check_setup
    from whyidle.engine.search.loader_healing import heal_loader
    from whyidle.version import __version__

    _output.check_outputs(args)
    setup = None if args.resume and not args.command else _read_setup(args)
    folder = _search_folder(args)
    if args.resume and not (folder / "ledger.jsonl").is_file():
        raise UsageError(f"There is no search in {folder}.", hint="whyidle tune --resume last")
    ledger = Ledger(folder.absolute())
    try:
        if setup is not None:
            if args.heal:
                before = ledger.setup
                tell = None if args.quiet else TuneProgress(quiet=False, trials=0).tell
                plan = before and before.plan
                if before is None:
                    plan = heal_loader(setup, ledger.folder, args.heal, tell)
                setup = replace(setup, plan=plan)
            check_setup(ledger, setup)
            if ledger.setup is None:
                trials = args.trials or _count_trials(setup)
                ledger.append(Opened(setup=setup, whyidle=__version__, trials=trials))
        return _run_engine(args, ledger)
    finally:
        ledger.close()


def _read_setup(args: argparse.Namespace) -> SearchSetup:
    from whyidle.engine.recording.launcher import command_of
    from whyidle.engine.search import command_template, metric_reading, space
    from whyidle.model.search import SearchSetup

    if not args.command:
        hint = "whyidle tune --space lr=log:1e-5..1e-1 --metric 'loss: {}' python train.py {lr}"
        raise UsageError("The command is missing.", hint=hint)
    if args.metric is None:
        hint = "--metric 'val_loss: {}' for a line of the output"
        raise UsageError("--metric is missing.", why="It says what to optimize.", hint=hint)
    command = command_of(args.command)
    dimensions = space.read_space(args.space)
    command_template.check_template(command, dimensions)
    if "{" in args.metric:
        metric_reading.compile_pattern(args.metric)
    return SearchSetup(
        command=command,
        dimensions=dimensions,
        metric=args.metric,
        direction=args.direction or metric_reading.guess_direction(args.metric),
        objective=args.objective,
        take=args.take,
        sampler=args.sampler,
        pruner=args.prune or ("asha" if args.engine == "ray" else "median"),
        engine=args.engine,
        seed=args.seed,
        plan=args.plan.read_text(encoding="utf-8") if _read_plan(args.plan) else None,
    )


def _read_plan(path: Path | None) -> FixPlan | None:
    from whyidle.catalog import load_knobs
    from whyidle.store.plan_file import read_plan

    return read_plan(path, load_knobs()) if path else None


def _apply_plan(ledger: Ledger, setup: SearchSetup) -> FixPlan | None:
    """The plan of all trials, which the ledger keeps: the file may have changed since."""
    if setup.plan is None:
        return None
    path = ledger.folder / "plan.toml"
    path.write_text(setup.plan, encoding="utf-8")
    return _read_plan(path)


def _count_trials(setup: SearchSetup) -> int:
    from whyidle.engine.search.space import grid_points

    return sum(1 for _ in grid_points(setup.dimensions)) if setup.sampler == "grid" else TRIALS


def _search_folder(args: argparse.Namespace) -> Path:
    from whyidle.store.location import locate_store

    searches = locate_store(args.store).root / FOLDER
    if args.resume == "last":
        found = sorted(path for path in searches.glob("*") if (path / "ledger.jsonl").is_file())
        if not found:
            raise UsageError("There is no search to resume.", why=f"{searches} holds none.")
        return found[-1]
    if args.resume:
        return Path(args.resume)
    named: Path | None = args.out
    return named or searches / datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-%f")


def _run_engine(args: argparse.Namespace, ledger: Ledger) -> int:
    """Run the search; with Ray in a child process, which Ray may end."""
    from whyidle.engine.search.driver_process import DriverProcess
    from whyidle.engine.search.ledger import opened_setup
    from whyidle.engine.search.trial_process import end_left_processes

    if opened_setup(ledger).engine != "ray":
        return _run_search(args, ledger)
    driver = DriverProcess()
    if driver.is_child:
        try:
            return _run_search(args, ledger)
        finally:
            driver.note_end()
    try:
        return driver.wait_for_child(str(ledger.folder))
    finally:
        end_left_processes(ledger.folder)


def _run_search(args: argparse.Namespace, ledger: Ledger) -> int:
    from whyidle.cli._tune_progress import TuneProgress
    from whyidle.engine.search.ledger import opened_setup
    from whyidle.engine.search.ray_search import run_ray_search
    from whyidle.engine.search.search_run import SearchRun
    from whyidle.engine.search.search_state import SearchLimits, SearchState
    from whyidle.engine.search.side_by_side import TrialRoom
    from whyidle.engine.search.trial_process import TrialTerms, end_left_processes

    setup = opened_setup(ledger)
    plan = _apply_plan(ledger, setup)
    limits = SearchLimits(args.trials or ledger.asked_trials, args.budget, args.gpu_hours)
    progress = TuneProgress(quiet=args.quiet, trials=limits.trials)
    _tell_beginning(progress, args, ledger, setup)
    if plan is not None:
        fixes = ", ".join(fix.fix for fix in plan.fix if fix.enabled)
        progress.tell(f"all trials run with the kept fixes: {fixes or 'none'}")
    end_left_processes(ledger.folder)
    if lost := ledger.close_running():
        numbers = ", ".join(map(str, lost))
        progress.tell(f"run again, since whyidle was killed meanwhile: trial {numbers}")
    terms = TrialTerms(
        metric=setup.metric,
        search=ledger.folder,
        grace_s=args.grace,
        most_s=args.trial_time,
        plan=plan,
    )
    status = 0
    try:
        state = SearchState(ledger, limits, progress)
        if setup.engine == "ray":
            run_ray_search(state, terms, args.resources)
        else:
            SearchRun(state, terms, TrialRoom(args.parallel, progress.tell)).run_trials()
    except KeyboardInterrupt:
        status = INTERRUPTED
    finally:
        progress.close()
    _report_search(args, ledger, interrupted=bool(status))
    fails = {trial.ending for trial in ledger.trials} == {"failed"}
    return status or int(fails)


def _tell_beginning(
    progress: TuneProgress, args: argparse.Namespace, ledger: Ledger, setup: SearchSetup
) -> None:
    verb = "resumes" if ledger.trials else "searches"
    guessed = "" if args.direction or args.resume else f" (--{_opposite(setup)} for the reverse)"
    progress.tell(f"{verb} in {ledger.folder}; will {setup.direction} {setup.metric}{guessed}")


def _opposite(setup: SearchSetup) -> str:
    return "maximize" if setup.direction == "minimize" else "minimize"


def _report_search(args: argparse.Namespace, ledger: Ledger, *, interrupted: bool) -> None:
    from whyidle.engine.search.search_document import make_search
    from whyidle.exporters._search_table import search_parts

    search = make_search(ledger)
    if args.json:
        _output.write_json(args.json, search)
    if args.html:
        from whyidle.exporters._html.search import render_search_page

        _output.write_target(args.html, render_search_page(search))
    if args.quiet or args.json == STDOUT:
        return
    place = Path(search.folder)
    place = place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place
    folder = _next_steps.shell_text([place])
    resume = f"whyidle tune --resume {folder}"
    steps = [(resume, "go on")] if interrupted else [(f"{resume} --trials N", "with more trials")]
    steps += [] if args.html else [(f"{resume} --html tune.html", "pictures")]
    _output.print_parts(search_parts(search, full=args.all), steps)
