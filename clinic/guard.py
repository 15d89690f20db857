"""Whether a cure changes the numbers no more than its card says: both arms make the same steps,
and what the parameters are after each is compared."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from clinic import launch
from clinic.card import Case, Mode, Options
from clinic.times import JobError
from clinic.typed import command

STEPS = 24
LIKE = 0.5
"""by how much of the way that the parameters went the arms may differ where rounding, the order of
samples or the precision is another"""
WITNESS = Path(__file__).with_name("witness.py")


def held(case: Case, mode: Mode) -> tuple[bool, str]:
    """Whether it does, and how that was seen. Raises JobError where an arm does not run."""
    arms = list(case.arms().values())
    if len(arms) < 2:
        return True, "nothing is planted"
    sick, cured = (numbers(case, case.arm(arm), mode) for arm in arms[:2])
    return like(case.consent, sick, cured)


def numbers(case: Case, options: Options, mode: Mode) -> list[float]:
    """The sum of all parameters' sizes after each of the first steps."""
    options = {**options, "steps": STEPS, **({case.onset: 0.0} if case.onset else {})}
    with launch.scratch(case, mode, first=f"import {WITNESS.stem}; ") as folder:
        shutil.copyfile(WITNESS, folder / WITNESS.name)
        launch.start(command(options, mode, 0.0, "whole"), folder, options, case.budget)
        try:
            return msgspec.json.decode((folder / "witness.json").read_bytes(), type=list[float])
        except (OSError, msgspec.DecodeError) as error:
            raise JobError(f"no steps of an optimizer were seen: {error}") from error


def like(consent: str, sick: Sequence[float], cured: Sequence[float]) -> tuple[bool, str]:
    """Two ways of the same steps, under what the cure may change."""
    if not all(map(math.isfinite, [*sick, *cured])):
        return False, "the numbers are not finite"
    if len(sick) != len(cured) or not sick:
        return False, f"{len(sick)} steps became {len(cured)}"
    odd = next(
        (step for step, pair in enumerate(zip(sick, cured, strict=True)) if len({*pair}) > 1), None
    )
    if odd is None:
        return True, "the same numbers"
    if consent == "none":
        return False, f"other numbers from step {odd + 1} on, and the card says none"
    way = max(abs(sick[-1] - sick[0]), abs(cured[-1] - cured[0]))
    apart = abs(sick[-1] - cured[-1]) / way if way else math.inf
    return consent == "convergence" or apart <= LIKE, f"{apart:.0%} of the way apart ({consent})"
