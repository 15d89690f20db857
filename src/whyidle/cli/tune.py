"""Search hyperparameters of an unmodified script, and report which trials were starved.

COMMAND is the command that you use today, with placeholders: python train.py --lr {lr}. Each trial
runs it with other values; trials that fall behind are ended early. The metric is read from the
output or from what the script reports. An interrupted or killed search continues with --resume,
also in several processes at once. It is an Optuna study, which optuna-dashboard can show.

Placeholders: {NAME} of the space, {config} (path of a JSON file with all values), {trial} (number)
and {folder} (a folder for the trial's files).
"""

from __future__ import annotations

import argparse
import os
import shlex
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _durations, _next_steps, _output
from whyidle.cli._options import add_option, add_outputs, add_store, parse_count
from whyidle.errors import INTERRUPTED, OutputError, UsageError

if TYPE_CHECKING:
    from whyidle.cli._tune_progress import TuneProgress
    from whyidle.model.documents.search import Search, SearchSetup
    from whyidle.model.plan import FixPlan
    from whyidle.planning.search.study import SearchFile

TRIALS = 20
"""default number of trials"""
FOLDER = "searches"


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
        "batch_size=32,64 (choices), or env:NAME=... (an environment variable)",
    )
    group.add_argument(
        "--metric",
        metavar="PATTERN",
        help="'val_loss: {}' is a pattern of a line of the output, {} the number; a NAME without "
        "braces is read from whyidle.report(), trackers and JSON lines of the output",
    )
    direction = group.add_mutually_exclusive_group()
    direction.add_argument(
        "--minimize",
        dest="direction",
        action="store_const",
        const="minimize",
        help="a smaller metric is better",
    )
    direction.add_argument(
        "--maximize",
        dest="direction",
        action="store_const",
        const="maximize",
        help="a larger metric is better (default for accuracy, score, reward and the like)",
    )
    group.add_argument(
        "--take", choices=("last", "best"), default="last", help="which value of a trial counts"
    )
    group.add_argument(
        "--sampler",
        choices=("tpe", "random", "grid"),
        default="tpe",
        help="how values are chosen (default: tpe, which learns from earlier trials)",
    )
    group.add_argument(
        "--prune",
        choices=("median", "asha", "none"),
        default="median",
        help="how trials that fall behind are ended early (default: median)",
    )
    group.add_argument("--seed", type=int, default=0, help="seed of the sampler (default: 0)")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--trials",
        metavar="N",
        type=parse_count,
        help=f"number of trials (default: {TRIALS}, or the whole grid)",
    )
    add_option(limits, "--budget", ": 90s, 2h (default: no limit)", type=_parse_time)
    limits.add_argument(
        "--parallel",
        metavar="N",
        type=parse_count,
        help="number of trials at a time; they share the cores (default: 1)",
    )
    jobs = parser.add_argument_group("trials")
    add_option(jobs, "--plan", ", to all trials", type=Path)
    add_option(jobs, "--out", " (default: a new one in the store)", type=Path)
    jobs.add_argument(
        "--storage",
        metavar="URL",
        help="where Optuna keeps the study, such as sqlite:///study.db or a database that several "
        "machines share (default: study.db in the folder of the search)",
    )
    jobs.add_argument(
        "--resume",
        metavar="DIR|last",
        help="continue a search; with only --html, --json or --all it is shown, not continued",
    )
    add_outputs(parser, ("--json", "--html"), ": every trial")
    add_store(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _parse_time(text: str) -> float:
    try:
        seconds = _durations.parse_seconds(text) or float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 < seconds < 1e8:
        raise argparse.ArgumentTypeError(f"must be a time, not {text!r}: {_durations.FORMS}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Run, resume or show the search."""
    from whyidle.planning.search.search_document import make_search
    from whyidle.planning.search.study import open_study, read_search_file

    _output.check_outputs(args)
    folder = _search_folder(args).absolute()
    if args.resume and not args.command:
        search = read_search_file(folder)
        shows = (args.html, args.json, args.all)
        if any(shows) and not any((args.trials, args.budget, args.parallel)):
            study = open_study(search)
            _report_search(args, make_search(folder, search, study))
            return 0
    else:
        search = _begin_search(args, folder)
    search.trials = args.trials or search.trials
    search.parallel = args.parallel or search.parallel
    search.write(folder)
    return _run_search(args, folder, search)


def _begin_search(args: argparse.Namespace, folder: Path) -> SearchFile:
    """A new search, or the one of the same command that the folder holds."""
    from whyidle.planning.search import study

    setup = _read_setup(args)
    if args.resume or (folder / study.FILE).is_file():
        search = study.read_search_file(folder)
        study.check_setup(folder, search.setup, setup)
        return search
    study.load_optuna()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{error.strerror or error}."
        hint = "Name another folder with --out."
        raise OutputError(f"Cannot write to {folder}.", why=why, hint=hint) from error
    trials = int(study.count_points(setup)) if setup.sampler == "grid" else TRIALS
    storage = args.storage or f"sqlite:///{folder / 'study.db'}"
    return study.SearchFile(setup=setup, storage=storage, study=folder.name, trials=trials)


def _read_setup(args: argparse.Namespace) -> SearchSetup:
    from whyidle.model.documents.search import SearchSetup
    from whyidle.planning.search import command_template, metric_reading, space
    from whyidle.record.launcher import command_of

    if not args.command:
        hint = "whyidle tune --space lr=log:1e-5..1e-1 --metric 'loss: {}' python train.py {lr}"
        raise UsageError("No command was given.", hint=hint)
    if args.metric is None:
        hint = "--metric 'val_loss: {}' for a line of the output"
        raise UsageError("--metric is missing.", why="It names what to optimize.", hint=hint)
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
        take=args.take,
        sampler=args.sampler,
        pruner=args.prune,
        seed=args.seed,
        plan=args.plan.read_text(encoding="utf-8") if _read_plan(args.plan) else None,
    )


def _read_plan(path: Path | None) -> FixPlan | None:
    from whyidle.catalog import load_knobs
    from whyidle.store.plan_file import read_plan

    return read_plan(path, load_knobs()) if path else None


def _apply_plan(folder: Path, setup: SearchSetup) -> FixPlan | None:
    """The plan of all trials, which the search keeps: the file may have changed since."""
    if setup.plan is None:
        return None
    path = folder / "plan.toml"
    path.write_text(setup.plan, encoding="utf-8")
    return _read_plan(path)


def _search_folder(args: argparse.Namespace) -> Path:
    from whyidle.store.location import locate_store

    searches = locate_store(args.store).root / FOLDER
    if args.resume == "last":
        found = sorted(path for path in searches.glob("*") if (path / "search.json").is_file())
        if not found:
            raise UsageError("There is no search to resume.", why=f"{searches} holds none.")
        return found[-1]
    if args.resume:
        return Path(args.resume)
    named: Path | None = args.out
    return named or searches / datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-%f")


def _run_search(args: argparse.Namespace, folder: Path, search: SearchFile) -> int:
    from whyidle.cli._tune_progress import TuneProgress
    from whyidle.planning.search.search_document import make_search
    from whyidle.planning.search.search_run import SearchRun
    from whyidle.planning.search.trial_process import TrialTerms, end_left_processes

    setup, parallel = search.setup, search.parallel
    plan = _apply_plan(folder, setup)
    progress = TuneProgress(quiet=args.quiet, trials=search.trials)
    end_left_processes(folder)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    terms = TrialTerms(
        metric=setup.metric,
        search=folder,
        plan=plan,
        threads=max((cores or 1) // parallel, 1) if parallel > 1 else None,
    )
    status = 0
    run = SearchRun(folder, search, terms, progress)
    _tell_beginning(progress, args, folder, setup)
    if plan is not None:
        fixes = ", ".join(fix.fix for fix in plan.fix if fix.enabled)
        progress.tell(f"all trials run with the kept fixes: {fixes or 'none'}")
    try:
        run.run_trials(args.budget)
    except KeyboardInterrupt:
        status = INTERRUPTED
    finally:
        progress.close()
    document = make_search(folder, search, run.study)
    _report_search(args, document, interrupted=bool(status))
    return status or int({trial.ending for trial in document.trials} == {"failed"})


def _tell_beginning(
    progress: TuneProgress, args: argparse.Namespace, folder: Path, setup: SearchSetup
) -> None:
    opposite = "maximize" if setup.direction == "minimize" else "minimize"
    guessed = "" if args.direction or args.resume else f" (--{opposite} for the reverse)"
    verb = "resumes" if args.resume else "searches"
    progress.tell(f"{verb} in {folder}; will {setup.direction} {setup.metric}{guessed}")


def _report_search(args: argparse.Namespace, search: Search, *, interrupted: bool = False) -> None:
    from whyidle.reports._search_table import render_search_page, search_parts

    if not _output.write_documents(
        args, json=lambda: search, html=lambda: render_search_page(search)
    ):
        return
    steps = _list_next_steps(args, search, interrupted=interrupted)
    _output.print_parts(search_parts(search, full=args.all), steps)


def _list_next_steps(
    args: argparse.Namespace, search: Search, *, interrupted: bool
) -> list[tuple[str, str]]:
    """The best command with its values in full, then how to go on."""
    steps = [(command, "the best trial")] if (command := _best_command(search)) else []
    place = Path(search.folder)
    place = place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place
    resume = f"whyidle tune --resume {_next_steps.shell_text([place])}"
    steps += (
        [(resume, "continue")] if interrupted else [(f"{resume} --trials N", "with more trials")]
    )
    return steps + ([] if args.html else [(f"{resume} --html tune.html", "all trials, as a page")])


def _best_command(search: Search) -> str | None:
    from whyidle.planning.search.command_template import fill_command
    from whyidle.planning.search.search_run import trial_folder

    best = next((trial for trial in search.trials if trial.number == search.best), None)
    if best is None:
        return None
    setup, folder = search.setup, trial_folder(Path(search.folder), best.number)
    filled = fill_command(setup.command, setup.dimensions, best.values, best.number, folder)
    variables = [f"{name}={shlex.quote(text)}" for name, text in filled.variables.items()]
    return " ".join([*variables, shlex.join(filled.words)])
