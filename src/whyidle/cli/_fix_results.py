"""Where ``fix`` puts what came of it, and what it says."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whyidle.cli import _output
from whyidle.cli._next_steps import Step, store_option
from whyidle.errors import InputError

if TYPE_CHECKING:
    from whyidle.engine.trial.loop.optimize import Optimized
    from whyidle.engine.trial.loop.patch_check import PatchCheck

MOST_FILES = 1000
UNDO = "`enabled = false` in the plan takes a fix back"


class OutputPaths(NamedTuple):
    """Where the plan and the patch go."""

    plan: Path
    patch: Path


def choose_outputs(args: argparse.Namespace) -> OutputPaths:
    """Where they go: what was named, or new files here; nothing is overwritten.

    Raises:
        InputError: a named one exists already, or its folder does not.
    """
    found = []
    if not os.access(".", os.W_OK) and None in (args.plan, args.patch):
        hint = "whyidle fix --plan PATH --patch PATH ..."
        raise InputError("Nothing can be written in this folder.", hint=hint)
    for named, usual in ((args.plan, "plan.toml"), (args.patch, "fix.patch")):
        if named is None:
            found.append(_free_path(Path(usual)))
            continue
        if named.exists():
            hint = "Name another, or remove it."
            raise InputError(f"{named} exists already.", why="It is not overwritten.", hint=hint)
        if not named.absolute().parent.is_dir():
            raise InputError(f"There is no folder {named.parent}.", hint=f"mkdir -p {named.parent}")
        found.append(named)
    return OutputPaths(*found)


def _free_path(path: Path) -> Path:
    """The first of plan.toml, plan-2.toml, ... that does not exist."""
    numbers = range(2, MOST_FILES)
    names = (path, *(path.with_name(f"{path.stem}-{n}{path.suffix}") for n in numbers))
    return next(name for name in names if not name.exists())


class Results(NamedTuple):
    """What came of it; ``notes`` are of how the trials were kept in."""

    found: Optimized
    handed: PatchCheck | None
    notes: Sequence[str]


def report_results(
    args: argparse.Namespace, results: Results, command: Sequence[str], files: OutputPaths
) -> None:
    """Write plan and patch where something was kept, store the diagnoses, and say all of it.

    Raises:
        InputError: an output could not be written.
    """
    from whyidle.engine.trial.loop.fix_document import make_document

    found, handed, notes = results
    after = _output.store_diagnosis(args, found.after, named=True) if found.after else None
    told = make_document(found, after, _hourly_price(args, found))
    said = [*notes, *_explain_missing_price(args, found), *_by_hand(handed)]
    told.coverage.notes[:0] = said  # of all notes the first are shown
    stored = _output.store_diagnosis(args, told, named=True)
    told = told.with_id(stored) if stored else told
    steps = _write_handover(args, results, command, files)
    steps += _longer_budget_step(args, found, command)
    if stored:
        here = store_option(args.store)
        if args.html is None:
            steps.append((f"whyidle report {stored} --html fix.html{here}", "with pictures"))
        steps += [(f"whyidle compare {stored} {after}{here}", "what changed")] if after else []
    _output.write_report(args, told, steps)


def _hourly_price(args: argparse.Namespace, found: Optimized) -> float | None:
    """What an hour of the whole job costs, by its GPUs; None where it has none."""
    count = _count_gpus(found)
    return args.price * count if args.price is not None and count else None


def _count_gpus(found: Optimized) -> int:
    """How many the job takes: a watched one tells of its ranks, and not always of devices."""
    device, run = found.before.device, found.before.run
    return 0 if device.kind == "cpu" else max(device.count, run.ranks, 1)


def _explain_missing_price(args: argparse.Namespace, found: Optimized) -> list[str]:
    """Why a price that was stated is told nothing by."""
    if args.price is None or _count_gpus(found):
        return []
    return ["No money is told: --price is what a GPU costs an hour, and this job computes on none."]


def _by_hand(handed: PatchCheck | None) -> list[str]:
    """What the patch could not say, what it says beside, and what came of running it."""
    if handed is None:
        return []
    patch = handed.patch
    said = [*(f"By hand: {sentence}" for sentence in patch.sentences), *patch.notes, handed.told]
    return [text if text.endswith(".") else f"{text}." for text in said if text]


def _write_handover(
    args: argparse.Namespace, results: Results, command: Sequence[str], files: OutputPaths
) -> list[Step]:
    """Write the plan and the patch; what to do with them. What cannot be written is told, for by
    now the work is done."""
    from whyidle.engine.trial.arms import stdin_replay
    from whyidle.engine.trial.loop.fix_document import make_plan
    from whyidle.store.plan_file import text_of

    found, handed, _ = results
    if not found.kept:
        return []
    steps = []
    if path := _write_new_file(args, files.plan, text_of(make_plan(found, command))):
        words = shlex.join(command) + stdin_replay.redirect_words()
        plan_words = shlex.join(["whyidle", "run", "--plan", str(path)])
        steps.append((f"{plan_words} {words}", f"your job with what was kept; {UNDO}"))
    if (
        handed is not None
        and handed.good
        and (path := _write_new_file(args, files.patch, handed.patch.diff))
    ):
        root, name = handed.patch.diff_root, str(path.absolute())
        inside = f" -C {shlex.quote(str(root))}" if root.resolve() != Path.cwd().resolve() else ""
        instead = "or the same in your own files, without the plan"
        steps.append((f"git{inside} apply {shlex.quote(name)}", instead))
        steps.append((f"git{inside} apply -R {shlex.quote(name)}", "takes that back"))
    return steps


def _longer_budget_step(
    args: argparse.Namespace, found: Optimized, command: Sequence[str]
) -> list[Step]:
    """The command that has the time for what there was none for."""
    from whyidle.engine.trial.arms import stdin_replay

    if found.enough_s is None:
        return []
    words = ["whyidle", "fix", "--budget", f"{found.enough_s / 60:.0f}m", *_typed_options(args)]
    again = shlex.join([*words, *command]) + stdin_replay.redirect_words()
    return [(again, "again, with time for the rest")]


def _typed_options(args: argparse.Namespace) -> list[str]:
    """The options as they were typed, but for the budget, and for files that must be new and are
    written by now."""
    typed = iter(args.typed[1 : len(args.typed) - len(args.command)])
    gone = {
        "--budget": True,
        "--plan": _path_exists(args.plan),
        "--patch": _path_exists(args.patch),
    }
    kept = []
    for word in typed:
        name, joined, _ = word.partition("=")
        if not gone.get(name):
            kept.append(word)
        elif not joined:
            next(typed, None)
    return kept[:-1] if kept[-1:] == ["--"] else kept


def _path_exists(path: Path | None) -> bool:
    return path is not None and path.exists()


def _write_new_file(args: argparse.Namespace, path: Path, text: str) -> Path | None:
    """Write a new file, or the next of its name that is free where somebody has made it meanwhile;
    None where it cannot be written."""
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        return _write_new_file(args, _free_path(path), text)
    except OSError as error:
        print(f"whyidle: {path} was not written: {error.strerror or error}", file=sys.stderr)
        return None
    _output.print_note(args, f"wrote {path}")
    return path
