"""Which cases the options name."""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
from collections.abc import Sequence
from typing import get_args

from clinic import floor
from clinic.card import GIVEN, TWIN, Case, Mode, cases
from clinic.runs import recordings
from clinic.turns import Job
from clinic.typed import has_framework, interpreter
from clinic.verbs import UsageError

MODES: tuple[Mode, ...] = get_args(Mode)
WHOLE: tuple[Mode, ...] = ("cpu", "emulated", "recorded")
"""what ``--mode all`` is: whatever needs no GPU"""


def chosen(args: argparse.Namespace) -> list[Job]:
    """The cases that the options name. Raises UsageError for one that does not exist."""
    try:
        every = cases(args.reseed)
    except ValueError as error:
        raise UsageError(f"a card makes no sense: {error}") from error
    modes = _modes(args.mode)
    jobs = [(case, mode) for mode in modes for case in every if mode in case.modes]
    if not jobs:
        raise UsageError(f"there is no case of mode {args.mode} yet")
    asked = args.cases or (floor.read().cases if args.fixed_subset else None)
    if asked is None:
        return jobs
    for name in asked:
        if not any(case.id.startswith(name) for case, _ in jobs):
            raise UsageError(_nothing(name, args.mode, every))
    return [(case, mode) for case, mode in jobs if any(map(case.id.startswith, asked))]


def _modes(asked: str) -> list[Mode]:
    """All is what this machine has: recordings of other people are not everywhere."""
    if asked != "all":
        return [mode for mode in MODES if mode == asked]
    if recordings().is_dir():
        return list(WHOLE)
    print("clinic: WHYIDLE_TRACES names no folder: recordings are left out", file=sys.stderr)
    return [mode for mode in WHOLE if mode != "recorded"]


def _nothing(name: str, mode: str, every: Sequence[Case]) -> str:
    """Why no case of a mode begins like that."""
    others = sorted({other for case in every if case.id.startswith(name) for other in case.modes})
    if others:
        return f"{name} is not of mode {mode}; try --mode {others[0]}"
    return f"no case begins with {name!r}: `python -m clinic list --mode all` tells what there is"


def startable(args: argparse.Namespace) -> list[Job]:
    """Those that are started here, not recorded elsewhere."""
    if importlib.util.find_spec("torch") is None:
        raise UsageError("there is no PyTorch here")
    return installed([job for job in chosen(args) if not job[0].recording])


def installed(jobs: Sequence[Job]) -> list[Job]:
    """Those whose framework is here; says once per framework which are left out."""
    absent: dict[str, list[str]] = {}
    left = []
    for case, mode in jobs:
        framework = str(case.options.get("@python", ""))
        if not framework or has_framework(interpreter(case.options), framework):
            left.append((case, mode))
        else:
            absent.setdefault(framework, []).append(case.id)
    for framework, ids in absent.items():
        print(
            f"clinic: {len(ids)} cases from {ids[0]} to {ids[-1]} need {framework}: "
            f"WHYIDLE_PYTHON_{framework.upper()} names a Python with it",
            file=sys.stderr,
        )
    return left


def drawn(jobs: Sequence[Job], seed: int | None) -> list[Job]:
    """Of each sheet one level, and the cured twin where it has one, in an order that is drawn as
    well: wherever it is stopped, what is done is a fair sample. Cures that need a consent are left
    out, as nobody gives it."""
    chance = random.Random(f"{seed}")
    sheets: dict[tuple[str, Mode], list[Job]] = {}
    for case, mode in jobs:
        if case.consent in GIVEN:
            own = case.id if case.id.endswith(f"{TWIN}") else case.id[:-1]
            sheets.setdefault((own, mode), []).append((case, mode))
    sample = [chance.choice(levels) for _, levels in sorted(sheets.items())]
    chance.shuffle(sample)
    return sample
