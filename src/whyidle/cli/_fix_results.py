"""Writes and reports the results of ``whyidle fix``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whyidle.cli import _output
from whyidle.cli._next_steps import Step, store_option
from whyidle.errors import InputError

if TYPE_CHECKING:
    from whyidle.fix.loop.optimize import Optimized
    from whyidle.fix.loop.patch_check import PatchCheck
    from whyidle.model.diagnosis import Diagnosis

UNDO = "enabled = false in the plan leaves a fix out"


class OutputPaths(NamedTuple):
    """Where the plan and the patch go."""

    plan: Path
    patch: Path


def choose_outputs(args: argparse.Namespace) -> OutputPaths:
    """Choose the paths of plan and patch: those of the options, or new files in this folder.

    Raises:
        InputError: a named file exists, or its folder does not.
    """
    paths = []
    if not os.access(".", os.W_OK) and None in (args.write_plan, args.patch):
        hint = "whyidle fix --write-plan PATH --patch PATH ..."
        raise InputError(
            "Cannot write the plan and the patch.", why="This folder is read-only.", hint=hint
        )
    for path, default in ((args.write_plan, "plan.toml"), (args.patch, "fix.patch")):
        if path is None:
            paths.append(_free_path(Path(default)))
            continue
        if path.exists():
            hint = "Name another file, or remove this one."
            why = "whyidle does not overwrite it."
            raise InputError(f"{path} already exists.", why=why, hint=hint)
        if not path.absolute().parent.is_dir():
            raise InputError(f"There is no folder {path.parent}.", hint=f"mkdir -p {path.parent}")
        paths.append(path)
    return OutputPaths(*paths)


def _free_path(path: Path) -> Path:
    numbers = range(2, 1000)
    names = (path, *(path.with_name(f"{path.stem}-{n}{path.suffix}") for n in numbers))
    return next(name for name in names if not name.exists())


class Results(NamedTuple):
    """The outcome of the trials, the checked patch, and notes on the isolation."""

    outcome: Optimized
    patch_check: PatchCheck | None
    notes: Sequence[str]


def report_results(
    args: argparse.Namespace, results: Results, command: Sequence[str], files: OutputPaths
) -> None:
    """Write the plan and the patch, store the diagnoses and report the results.

    Raises:
        InputError: an output could not be written.
    """
    from whyidle.fix.loop.fix_document import make_document

    outcome, patch_check, notes = results
    ran = datetime.now(timezone.utc)  # the job as it was sorts before the fixed one
    after = _output.store_diagnosis(args, outcome.after, named=True) if outcome.after else None
    count = _count_gpus(outcome)
    priced = args.price is not None and count
    document = make_document(outcome, after, args.price * count if priced else None)
    new_notes = [*notes, *_patch_notes(patch_check)]
    if args.price is not None and not count:
        text = "--price has no effect: it is the price of a GPU per hour, and this job uses no GPU."
        new_notes.insert(len(notes), text)
    document.coverage.notes[:0] = new_notes  # the report shows the first notes only
    steps = _write_handover(args, results, command, files)
    document = _with_handover(document, patch_check, steps)
    steps += _longer_budget_step(args, outcome, command)
    stored = _output.store_diagnosis(args, document, named=True, now=ran)
    if stored:
        document, option = document.with_id(stored), store_option(args.store)
        if args.html is None:
            steps.append((f"whyidle report {stored}{option} --html fix.html", "as an HTML page"))
        if after:
            steps.append((f"whyidle compare {stored} {after}{option}", "what the fixes changed"))
    _output.write_report(args, document, steps)


def _with_handover(
    document: Diagnosis, check: PatchCheck | None, steps: Sequence[Step]
) -> Diagnosis:
    """The document with the patch and the commands that use it, for its page."""
    from msgspec.structs import replace

    from whyidle.model.redaction import redact_text

    fixed = document.detail.fixed
    if fixed is None:
        return document
    patch = check.patch.diff if check and check.is_writable else ""
    commands = [(redact_text(line), why) for line, why in steps]
    fixed = replace(fixed, patch=patch, commands=commands)
    return replace(document, detail=replace(document.detail, fixed=fixed))


def _count_gpus(outcome: Optimized) -> int:
    device, run = outcome.before.device, outcome.before.run
    return 0 if device.kind == "cpu" else max(device.count, run.ranks, 1)


def _patch_notes(check: PatchCheck | None) -> list[str]:
    if check is None:
        return []
    patch = check.patch
    notes = [
        *(f"By hand: {sentence}" for sentence in patch.sentences),
        *patch.notes,
        check.explanation,
    ]
    return [text if text.endswith(".") else f"{text}." for text in notes if text]


def _write_handover(
    args: argparse.Namespace, results: Results, command: Sequence[str], files: OutputPaths
) -> list[Step]:
    from whyidle.fix.loop.fix_document import make_plan
    from whyidle.store.plan_file import text_of

    outcome, check, _ = results
    if not outcome.kept:
        return []
    steps = []
    if path := _write_new_file(args, files.plan, text_of(make_plan(outcome, command))):
        words = shlex.join(["whyidle", "run", "--plan", str(path), *command])
        steps.append((words, f"run your job with the kept fixes; {UNDO}"))
    if (
        check
        and check.is_writable
        and (path := _write_new_file(args, files.patch, check.patch.diff))
    ):
        root, name = check.patch.diff_root, shlex.quote(str(path.absolute()))
        folder = f" -C {shlex.quote(str(root))}" if root.resolve() != Path.cwd().resolve() else ""
        purpose = "or write the same fixes into your source files"
        steps.append((f"git{folder} apply {name}", purpose))
        steps.append((f"git{folder} apply -R {name}", "undo the patch"))
    return steps


def _longer_budget_step(
    args: argparse.Namespace, outcome: Optimized, command: Sequence[str]
) -> list[Step]:

    if outcome.enough_s is None:
        return []
    words = ["whyidle", "fix", "--budget", f"{outcome.enough_s / 60:.0f}m", *_typed_options(args)]
    line = shlex.join([*words, *command])
    return [(line, "try the remaining fixes with a longer budget")]


def _typed_options(args: argparse.Namespace) -> list[str]:
    typed = iter(args.typed[1 : len(args.typed) - len(args.command)])
    dropped = {"--budget"}
    dropped |= {
        f"--{name}"
        for name in ("write-plan", "patch")
        if (path := vars(args)[name.replace("-", "_")]) and path.exists()
    }
    options = []
    for word in typed:
        name, joined, _ = word.partition("=")
        if name not in dropped:
            options.append(word)
        elif not joined:
            next(typed, None)
    return options[:-1] if options[-1:] == ["--"] else options


def _write_new_file(args: argparse.Namespace, path: Path, text: str) -> Path | None:
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
