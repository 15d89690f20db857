"""What ``whyidle fix`` makes of a case: the job's own rate with the plan that came of it, beside
that of the cured twin, and of the job with every safe fix at once; all in one turn, as a machine's
pace drifts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from operator import lt
from pathlib import Path
from statistics import median

import msgspec

from clinic import launch
from clinic.card import Case, Mode, Options
from clinic.examine import from_start
from clinic.outcome import Results, timed, watch_key
from clinic.times import JobError, written
from clinic.typed import command, environment
from whyidle.store.atomic_write import write_atomic

LONG_S = 100_000.0
"""so long a job would train that is only tried"""
HARM = 0.98
"""times as fast: below this a plan did harm"""
PAIRS, MOST_PAIRS = 3, 5
"""runs of each arm, and of those where the plan seems to leave the job slower"""
SETTLED_S = 6.0
"""so long an arm trains at least whose steps are timed: what a fix keeps in a first epoch, which is
as slow as ever, is kept soon after the beginning that does not count"""
SAFE = """schema = "whyidle/plan/1"
command = []
made = "2026-01-01T00:00:00+00:00"
whyidle = "0"
[[fix]]
fix = "loader-workers"
consent = "rounding"
[fix.edits]
loader.workers = 2
loader.persistent_workers = true
[[fix]]
fix = "gc-freeze"
consent = "none"
[fix.edits]
gc.freeze = true
gc.collect_interval_steps = 50
[[fix]]
fix = "fused-optimizer"
consent = "rounding"
[fix.edits]
optimizer.fused = true
"""
"""every fix that lists of advice call safe, for a machine of two cores"""


class Tried(msgspec.Struct, frozen=True):
    """One fix of the product's: what its trial showed, or why it had none."""

    fix: str
    tried: bool
    kept: bool
    predicted: float | None
    speedup: float | None
    low: float | None
    high: float | None
    why: str


class Healed(msgspec.Struct, frozen=True, kw_only=True):
    """Of one case. Rates are samples/s, told by the job; ``safe`` is with every safe fix,
    ``cured`` is the twin without what was planted."""

    id: str
    mode: Mode
    tried: list[Tried] = []
    sick: list[float] = []
    planned: list[float] = []
    safe: list[float] = []
    cured: list[float] = []
    consent: str = "none"
    """what the card's cure changes"""
    advice: bool = False
    """whether a part of the card's cure is only for people"""
    seconds: float = 0.0
    error: str = ""

    @property
    def gain(self) -> float | None:
        """Of the plan: the job itself is the judge, not the trial that chose it."""
        return _ratio(self.planned, self.sick)

    @property
    def oracle(self) -> float | None:
        """What the cured twin gains."""
        return _ratio(self.cured, self.sick)

    @property
    def share(self) -> float | None:
        """Of what the cured twin makes, what the job makes with the plan: beside each other, so
        that the pace of the sick one, which is in both gains, counts in neither."""
        return _ratio(self.planned, self.cured)

    @property
    def safe_share(self) -> float | None:
        """And with every safe fix."""
        return _ratio(self.safe, self.cured)

    @property
    def harmed(self) -> bool:
        """Whether the plan left the job slower."""
        return _slower(self.planned, self.sick)

    @property
    def safe_harmed(self) -> bool:
        """Whether every safe fix did."""
        return _slower(self.safe, self.sick)

    @property
    def safe_gain(self) -> float | None:
        """Of every safe fix."""
        return _ratio(self.safe, self.sick)


def _ratio(one: Sequence[float], another: Sequence[float]) -> float | None:
    pairs = list(zip(one, another, strict=False))
    return median(a / b for a, b in pairs) if pairs else None


def _slower(one: Sequence[float], another: Sequence[float]) -> bool:
    """All in all, and in every pair: a machine's pace drifts."""
    gain = _ratio(one, another)
    return gain is not None and gain < HARM and all(map(lt, one, another))


def heal(case: Case, mode: Mode, results: Results, budget_s: float, lock: Path | None) -> Healed:
    """Fix it, and run it with what came of that; kept, and not done again."""
    path = results.folder / "healed" / f"{case.id}-{watch_key(case, mode)}.json"
    if path.is_file():
        return msgspec.json.decode(path.read_bytes(), type=Healed)
    begin = launch.wall()
    advice = any(fault.advice for fault in case.inject)
    found = Healed(id=case.id, mode=mode, consent=case.consent, advice=advice)
    try:
        with launch.turn(lock), launch.scratch(case, mode) as folder:
            found = _healed(found, case, mode, folder, budget_s)
    except (JobError, subprocess.TimeoutExpired, msgspec.MsgspecError) as error:
        found = msgspec.structs.replace(found, error=str(error)[-400:])
    found = msgspec.structs.replace(found, seconds=launch.wall() - begin)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, msgspec.json.encode(found))
    return found


def _healed(found: Healed, case: Case, mode: Mode, folder: Path, budget_s: float) -> Healed:
    options = from_start(case, frozenset())
    if mode == "emulated":
        options = {**options, "$WHYIDLE_EMULATED_COUNTERS": "counters"}  # as a driver shows them
    whyidle = [sys.executable, "-m", "whyidle"]
    words = command(options, mode, LONG_S, case.measure)
    fix = [*whyidle, "fix", "--quiet", "--no-store", "--budget", f"{budget_s:.0f}s"]
    done = subprocess.run(
        [*fix, "--json", "told.json", *words],
        cwd=folder,
        env=environment(options),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=3 * budget_s + 120,
        check=False,
    )
    if done.returncode:
        raise JobError(f"fix ended with {done.returncode}: {done.stderr.decode()[-300:]}")
    document = msgspec.json.decode((folder / "told.json").read_bytes())
    tried = [msgspec.convert(one, Tried) for one in document["trials"]]
    (folder / "safe.toml").write_text(SAFE, encoding="utf-8")
    found = msgspec.structs.replace(found, tried=tried)
    return _compared(found, case, mode, folder)


def arm_s(case: Case) -> float:
    """Seconds that an arm trains. A job that is timed from its start to its end is as long as its
    card has it."""
    own = case.budget.arm_s
    return own if case.measure == "whole" else max(own, SETTLED_S)


def _rate(case: Case, mode: Mode, options: Options, plan: list[str]) -> float:
    """Of one arm, in a folder of its own: what it leaves there would be in the next one's way."""
    run = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-live", "--profile", "off"]
    words = command(options, mode, arm_s(case), case.measure)
    with launch.scratch(case, mode) as folder:
        launch.start([*run, *plan, *words], folder, options, case.budget)
        return written(folder).rate(case.measure)


def _compared(found: Healed, case: Case, mode: Mode, folder: Path) -> Healed:
    """With the rates of its arms, run in turn and in turned order."""
    sick = from_start(case, frozenset())
    arms: dict[str, tuple[Options, list[str]]] = {"sick": (sick, [])}
    if (folder / "plan.toml").is_file():
        arms["planned"] = (sick, ["--plan", str(folder / "plan.toml")])
    arms["safe"] = (sick, ["--plan", str(folder / "safe.toml")])
    if timed(case):
        arms["cured"] = (from_start(case, case.arms()["cured"]), [])
    rates: dict[str, list[float]] = {name: [] for name in ("sick", "planned", "safe", "cured")}
    for number in range(MOST_PAIRS):
        for name in list(arms) if number % 2 == 0 else reversed(arms):
            rates[name].append(_rate(case, mode, *arms[name]))
        if number + 1 >= PAIRS:
            found = msgspec.structs.replace(found, **rates)
            if not found.harmed:
                break
    if "planned" not in arms:
        found = msgspec.structs.replace(found, planned=found.sick)
    return found
