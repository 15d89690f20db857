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
from whyidle.cli._next import Step, where
from whyidle.errors import InputError

if TYPE_CHECKING:
    from whyidle.engine.trial.handover import Handover
    from whyidle.engine.trial.heal import Healed

MOST_FILES = 1000
UNDO = "`enabled = false` in the plan takes a fix back"


class Places(NamedTuple):
    """Where the plan and the patch go."""

    plan: Path
    patch: Path


def places(args: argparse.Namespace) -> Places:
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
            found.append(_free(Path(usual)))
            continue
        if named.exists():
            hint = "Name another, or remove it."
            raise InputError(f"{named} exists already.", why="It is not overwritten.", hint=hint)
        if not named.absolute().parent.is_dir():
            raise InputError(f"There is no folder {named.parent}.", hint=f"mkdir -p {named.parent}")
        found.append(named)
    return Places(*found)


def _free(path: Path) -> Path:
    """The first of plan.toml, plan-2.toml, ... that does not exist."""
    numbers = range(2, MOST_FILES)
    names = (path, *(path.with_name(f"{path.stem}-{n}{path.suffix}") for n in numbers))
    return next(name for name in names if not name.exists())


class Results(NamedTuple):
    """What came of it; ``notes`` are of how the trials were kept in."""

    found: Healed
    handed: Handover | None
    notes: Sequence[str]


def tell(args: argparse.Namespace, results: Results, command: Sequence[str], files: Places) -> None:
    """Write plan and patch where something was kept, store the diagnoses, and say all of it.

    Raises:
        InputError: an output could not be written.
    """
    from whyidle.engine.trial.document import document

    found, handed, notes = results
    after = _output.keep(args, found.after, named=True) if found.after else None
    told = document(found, after, _price(args, found))
    said = [*notes, *_priceless(args, found), *_by_hand(handed)]
    told.coverage.notes[:0] = said  # of all notes the first are shown
    stored = _output.keep(args, told, named=True)
    told = told.called(stored) if stored else told
    steps = _written(args, results, command, files)
    steps += _more(args, found, command)
    if stored:
        here = where(args.store)
        if args.html is None:
            steps.append((f"whyidle report {stored} --html fix.html{here}", "with pictures"))
        steps += [(f"whyidle compare {stored} {after}{here}", "what changed")] if after else []
    _output.say(args, told, steps)


def _price(args: argparse.Namespace, found: Healed) -> float | None:
    """What an hour of the whole job costs, by its GPUs; None where it has none."""
    count = _gpus(found)
    return args.price * count if args.price is not None and count else None


def _gpus(found: Healed) -> int:
    """How many the job takes: a watched one tells of its ranks, and not always of devices."""
    device, run = found.before.device, found.before.run
    return 0 if device.kind == "cpu" else max(device.count, run.ranks, 1)


def _priceless(args: argparse.Namespace, found: Healed) -> list[str]:
    """Why a price that was stated is told nothing by."""
    if args.price is None or _gpus(found):
        return []
    return ["No money is told: --price is what a GPU costs an hour, and this job computes on none."]


def _by_hand(handed: Handover | None) -> list[str]:
    """What the patch could not say, what it says beside, and what came of running it."""
    if handed is None:
        return []
    patch = handed.patch
    said = [*(f"By hand: {sentence}" for sentence in patch.sentences), *patch.notes, handed.told]
    return [text if text.endswith(".") else f"{text}." for text in said if text]


def _written(
    args: argparse.Namespace, results: Results, command: Sequence[str], files: Places
) -> list[Step]:
    """Write the plan and the patch; what to do with them. What cannot be written is told, for by
    now the work is done."""
    from whyidle.engine.trial import given
    from whyidle.engine.trial.document import plan
    from whyidle.store.plan import text_of

    found, handed, _ = results
    if not found.kept:
        return []
    steps = []
    if path := _new(args, files.plan, text_of(plan(found, command))):
        words = shlex.join(command) + given.words()
        plan_words = shlex.join(["whyidle", "run", "--plan", str(path)])
        steps.append((f"{plan_words} {words}", f"your job with what was kept; {UNDO}"))
    if handed is not None and handed.good and (path := _new(args, files.patch, handed.patch.diff)):
        root, name = handed.patch.root, str(path.absolute())
        inside = f" -C {shlex.quote(str(root))}" if root.resolve() != Path.cwd().resolve() else ""
        instead = "or the same in your own files, without the plan"
        steps.append((f"git{inside} apply {shlex.quote(name)}", instead))
        steps.append((f"git{inside} apply -R {shlex.quote(name)}", "takes that back"))
    return steps


def _more(args: argparse.Namespace, found: Healed, command: Sequence[str]) -> list[Step]:
    """The command that has the time for what there was none for."""
    from whyidle.engine.trial import given

    if found.enough_s is None:
        return []
    words = ["whyidle", "fix", "--budget", f"{found.enough_s / 60:.0f}m", *_typed(args)]
    again = shlex.join([*words, *command]) + given.words()
    return [(again, "again, with time for the rest")]


def _typed(args: argparse.Namespace) -> list[str]:
    """The options as they were typed, but for the budget, and for files that must be new and are
    written by now."""
    typed = iter(args.typed[1 : len(args.typed) - len(args.command)])
    gone = {"--budget": True, "--plan": _there(args.plan), "--patch": _there(args.patch)}
    kept = []
    for word in typed:
        name, joined, _ = word.partition("=")
        if not gone.get(name):
            kept.append(word)
        elif not joined:
            next(typed, None)
    return kept[:-1] if kept[-1:] == ["--"] else kept


def _there(path: Path | None) -> bool:
    return path is not None and path.exists()


def _new(args: argparse.Namespace, path: Path, text: str) -> Path | None:
    """Write a new file, or the next of its name that is free where somebody has made it meanwhile;
    None where it cannot be written."""
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        return _new(args, _free(path), text)
    except OSError as error:
        print(f"whyidle: {path} was not written: {error.strerror or error}", file=sys.stderr)
        return None
    _output.note(args, f"wrote {path}")
    return path
