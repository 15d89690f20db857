"""Cards: what is wrong with a job, how bad, and what its cure is. Read from ``cards/*.toml``.

A sheet (one file) describes one job with one set of planted habits at several levels of severity;
each level is a case. Options whose value is a pair are ranges: the middle is taken, or, with
``--reseed``, a number drawn from it.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Literal

import msgspec

Kind = Literal["single", "masked", "decoy", "healthy", "varying", "unknown"]
Mode = Literal["cpu", "emulated", "recorded", "gpu"]
Level = Literal["mild", "medium", "severe", "only"]
Measure = Literal["steps", "whole"]
Consent = Literal["none", "rounding", "numerics", "convergence"]
Value = str | int | float | bool
Options = dict[str, Value]
Drawn = Value | tuple[float | str, ...]
"""a value, a range of numbers, or words of which one is taken"""

CARDS = Path(__file__).with_name("cards")
WORKLOADS = Path(__file__).with_name("workloads")
TWIN = 9
GIVEN: frozenset[Consent] = frozenset({"none", "rounding"})
"""what a cure may change without being asked: what needs more is held against no plan"""
LATER = frozenset({"memory-leak-growth"})
"""causes that cost no time until they end the job: a remark is all that can be asked for, and there
is nothing to time"""
DIGIT: dict[Level, int] = {"only": 0, "mild": 1, "medium": 2, "severe": 3}


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One planted habit, and what takes it away.

    Attributes:
        cause: id in the catalogue; empty where the catalogue has none.
        also: ids that name the same thing, and are as right.
        family: of the cause.
        buckets: where its time lies; the first is the best answer.
        locus: function, file or phase to blame.
        sick: options that plant it.
        cured: options of the twin without it.
        fix: the cure in words.
        fix_id: id of the product's fix that is this cure, where it has one.
        advice: it is nothing that a process can be given while it runs: something is done less
            often, elsewhere, or by other code.
    """

    cause: str = ""
    also: tuple[str, ...] = ()
    family: str
    buckets: tuple[str, ...]
    locus: str
    sick: Options = {}
    cured: Options = {}
    fix: str
    fix_id: str = ""
    advice: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Every right name of it."""
        return frozenset({self.cause, *self.also} - {""})


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds of training that a case may take, besides what starting takes."""

    watch_s: float = 8.0
    arm_s: float = 3.0
    pairs: int = 2
    limit_s: float = 60.0
    """a process that takes longer has failed"""


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sheet and each of its cases have in common.

    Attributes:
        consent: what the cure may change in the numbers, as in a fix.
        measure: what the cure shortens: a steady ``steps``, or the ``whole`` job, start included
            (``--steps`` is then fixed, ``--seconds`` not given).
        beside: its device sleeps and its host is idle for most of a step: it may run side by side
            with others like it, which changes neither its gain nor what is seen of it.
        onset: the option that holds the second at which a ``varying`` job falls ill.
        recording: of mode ``recorded``, relative to the folder that ``WHYIDLE_TRACES`` names.
        twin: a recording of the same job, cured, where somebody made one.
    """

    workload: str
    kind: Kind
    modes: tuple[Mode, ...] = ("cpu",)
    consent: Consent = "none"
    measure: Measure = "steps"
    beside: bool = False
    inject: tuple[Fault, ...] = ()
    onset: str = ""
    recording: str = ""
    twin: str = ""
    budget: Budget = Budget()


class Sheet(Job, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A card's file.

    Attributes:
        options: of every arm; ``$NAME`` is an environment variable, ``@cores`` and ``@ranks``
            are how it is started.
        watch_twin: the cured twin of the last level is a healthy case of its own.
        levels: options of each level, more than those of every arm.
    """

    options: dict[str, Drawn] = {}
    watch_twin: bool = False
    levels: dict[Level, dict[str, Drawn]] = {}


class Case(Job, frozen=True, kw_only=True):
    """One case, every number of it decided."""

    id: str
    level: Level
    options: Options

    def arm(self, cured: frozenset[int] = frozenset()) -> Options:
        """Options of the job in which the faults of these numbers are cured."""
        options = dict(self.options)
        for number, fault in enumerate(self.inject):
            options |= fault.cured if number in cured else fault.sick
        return options

    def arms(self) -> dict[str, frozenset[int]]:
        """The arms to time: the sick job, each cure alone, all of them together."""
        whole = frozenset(range(len(self.inject)))
        arms = {"sick": frozenset[int]()}
        if self.inject:
            arms["cured"] = whole
        if len(self.inject) > 1:
            arms |= {f"cured {number}": frozenset({number}) for number in sorted(whole)}
        return arms


def cases(reseed: int | None = None, folder: Path = CARDS) -> list[Case]:
    """Every case, by id. Raises ValueError, naming the file, where a card makes no sense."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        sheet = read(path)
        levels: dict[Level, dict[str, Drawn]] = sheet.levels or {"only": {}}
        for level, more in levels.items():
            found.append(_case(f"c{path.stem}{DIGIT[level]}", level, sheet, more, reseed))
        if sheet.watch_twin:
            found.append(healthy_twin(found[-1]))
    return sorted(found, key=lambda case: case.id)


def healthy_twin(case: Case) -> Case:
    """The same job with every fault cured, to be watched as it is."""
    whole = frozenset(range(len(case.inject)))
    return msgspec.structs.replace(
        case,
        id=f"{case.id[:-1]}{TWIN}",
        level="only",
        kind="healthy",
        options=case.arm(whole),
        inject=(),
        onset="",
    )


def read(path: Path) -> Sheet:
    """One file."""
    try:
        sheet = msgspec.toml.decode(path.read_bytes(), type=Sheet)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if not (path.stem.isdigit() and len(path.stem) == 3):
        raise ValueError(f"{path.name}: a sheet is named by three digits")
    if bool(sheet.recording) != (sheet.modes == ("recorded",)):
        raise ValueError(f"{path.name}: mode recorded has a recording, and no other has")
    if sheet.kind != "healthy" and not sheet.inject:
        raise ValueError(f"{path.name}: nothing is planted")
    if sheet.kind == "healthy" and sheet.inject:
        raise ValueError(f"{path.name}: a healthy job has nothing planted")
    if sheet.beside and sheet.modes != ("emulated",):
        raise ValueError(f"{path.name}: only where the device is emulated a case may run beside")
    if any(map(_no_choice, [sheet.options, *sheet.levels.values()])):
        raise ValueError(f"{path.name}: a range is two numbers, a choice is words alone")
    if (sheet.kind == "varying") != bool(sheet.onset):
        raise ValueError(f"{path.name}: varying jobs have an onset, and no others")
    return sheet


def _no_choice(options: dict[str, Drawn]) -> bool:
    several = [value for value in options.values() if isinstance(value, tuple)]
    words = [sum(isinstance(one, str) for one in value) for value in several]
    return any(
        not value or count not in (0, len(value)) or (not count and len(value) != 2)
        for value, count in zip(several, words, strict=True)
    )


def _case(
    name: str, level: Level, sheet: Sheet, more: dict[str, Drawn], reseed: int | None
) -> Case:
    chance = random.Random(f"{reseed}:{name}")
    options = {
        key: _drawn(value, chance if reseed is not None else None)
        for key, value in {**sheet.options, **more}.items()
    }
    seed = int(name[1:]) if reseed is None else chance.randrange(1, 1 << 16)
    options.setdefault("seed", seed)
    shared = {field: getattr(sheet, field) for field in Job.__struct_fields__}
    return Case(id=name, level=level, options=options, **shared)


def _drawn(value: Drawn, chance: random.Random | None) -> Value:
    """A range's geometric middle, or a number from it; whole where both ends are. Of words the
    one in the middle, or any."""
    if not isinstance(value, tuple):
        return value
    numbers = [one for one in value if not isinstance(one, str)]
    if not numbers:
        return str(chance.choice(value) if chance else value[len(value) // 2])
    low, high = numbers
    at = chance.random() if chance else 0.5
    number = math.exp(math.log(low) + at * (math.log(high) - math.log(low)))
    return round(number) if low == int(low) and high == int(high) else round(number, 4)
