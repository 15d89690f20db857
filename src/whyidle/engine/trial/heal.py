"""Diagnose, try the most promising fix, keep what is proven, look again: until nothing is left.

After each fix that is kept the job is watched anew with it, so that what it hid is seen, and what
gains no more is not tried: the next candidates are judged by what the run itself then says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from whyidle.engine.trial import arm, judge
from whyidle.engine.trial.arm import Asked, Guard, Ran
from whyidle.engine.trial.candidates import Candidate, Passed, candidates, key
from whyidle.engine.trial.judge import Bench, Judgement
from whyidle.engine.trial.pair import Effect, effect
from whyidle.engine.watch import diagnose_recording, note_end
from whyidle.errors import InputError, TrialError
from whyidle.model.diagnosis import Consent, Diagnosis, Edit

LOOK_SHARE, ARM_SHARE = 0.04, 0.025
"""of the budget: watching once in detail, and the steady part of one arm"""
LOOK_S, ARM_S = (6.0, 30.0), (3.0, 20.0)
"""bounds of these, s"""
FEWEST = 12
"""steps of an arm, whatever they take"""
PATIENCE = 4.0
"""a treated arm that takes so many times as long as an untreated one is ended"""

Guarded = Callable[[Path], AbstractContextManager[Guard]]
"""from an arm's folder, which stays writable, to what keeps the arm in"""
Say = Callable[[str], None]


@dataclass(slots=True)
class Healing:
    """A command being healed; ``kept`` is what it runs with by now."""

    command: Sequence[str]
    folder: Path
    guarded: Guarded
    budget_s: float
    allowed: Collection[Consent]
    say: Say = lambda _: None
    begun: float = field(default_factory=time.monotonic)
    arms: int = 0
    kept: list[Candidate] = field(default_factory=list)
    judged: list[Judgement] = field(default_factory=list)
    steps: int = 0
    arm_s: float = 0.0
    """what one untreated arm takes altogether"""

    @property
    def left_s(self) -> float:
        """What is left of the budget."""
        return self.budget_s - (time.monotonic() - self.begun)

    def edits(self, *more: Candidate) -> tuple[Edit, ...]:
        """Of what is kept, and more; a knob that is turned twice is as the last one has it."""
        found = {edit.knob: edit for one in (*self.kept, *more) for edit in one.edits}
        return tuple(found.values())

    def run(self, asked: Asked) -> Ran:
        """One arm."""
        self.arms += 1
        folder = self.folder / f"arm-{self.arms:03}"
        folder.mkdir(parents=True)
        with self.guarded(folder) as guard:
            return arm.run(self.command, asked, folder, guard)


@dataclass(frozen=True, slots=True)
class Healed:
    """What came of it. ``after`` is None where nothing was kept; ``whole`` is what all kept fixes
    bring together, against the untreated job."""

    before: Diagnosis
    after: Diagnosis | None
    judged: Sequence[Judgement]
    kept: Sequence[Candidate]
    passed: Sequence[Passed]
    whole: Effect | None
    seconds: float
    spent: bool
    """whether the budget ended it"""


def heal(healing: Healing) -> Healed:
    """Try, keep, and look again, within the budget.

    Raises:
        TrialError: the command does not run, or shows no steps.
    """
    healing.say("watching the job as it is")
    before = _first(healing)
    now: Diagnosis = before
    after = None
    passed: dict[str, Passed] = {}
    tried: set[tuple[str, tuple[Edit, ...]]] = set()
    spent = False
    while True:
        ready, aside = candidates(now, healing.allowed, tried)
        passed |= {one.candidate.treatment: one for one in aside}
        if not ready:
            break
        if healing.left_s < 4 * healing.arm_s:
            spent = True
            passed |= {one.treatment: Passed(one, "the budget was spent") for one in ready}
            break
        tried.add(key(ready[0]))
        judgement = _try(healing, ready[0])
        healing.judged.append(judgement)
        if judgement.kept:
            healing.kept.append(ready[0])
            healing.say("looking again with it")
            after = _again(healing) or now
            now = after
    done = {one.candidate.treatment for one in healing.judged}
    return Healed(
        before=before,
        after=after,
        judged=healing.judged,
        kept=healing.kept,
        passed=[one for name, one in passed.items() if name not in done],
        whole=_whole(healing),
        seconds=time.monotonic() - healing.begun,
        spent=spent,
    )


def _first(healing: Healing) -> Diagnosis:
    """Watch the job as it is, and learn how many steps make an arm."""
    seconds = within(LOOK_SHARE * healing.budget_s, LOOK_S)
    patience = max(healing.budget_s / 2, 60.0)
    ran = healing.run(Asked(seconds=seconds, patience_s=patience, profile=True))
    _must_run(ran)
    told = ran.told
    if told is None or len(told.marks) < FEWEST:
        count = len(told.marks) if told else 0
        raise TrialError(
            f"Only {count} training steps were seen: too few to try anything.",
            why="Fewer cannot be told from chance.",
            hint="Have the script train longer, or give more time: --budget 20m",
        )
    each_s = (told.marks[-1] - told.marks[0]) / 1e9 / (len(told.marks) - 1)
    wanted_s = within(ARM_SHARE * healing.budget_s, ARM_S)
    known = len(told.marks) if ran.ending == "finished" else None
    healing.steps = max(FEWEST, min(round(1.25 * wanted_s / each_s), known or 10**9))
    healing.arm_s = (told.marks[0] - told.begun) / 1e9 + healing.steps * each_s + 3.0
    return _diagnosed(ran, healing)


def within(value: float, bounds: tuple[float, float]) -> float:
    """The value, or the bound that it passes."""
    return max(bounds[0], min(value, bounds[1]))


def _must_run(ran: Ran) -> None:
    """Raises TrialError where the untreated job itself does not."""
    if ran.good:
        return
    last = (ran.said.strip().splitlines() or ["it printed nothing"])[-1]
    told = {
        "crashed": f"it ended with {ran.status}: {last}",
        "hung": "no step ended within the time; give more with --budget",
        "silent": "it ended well, but no optimizer's step was seen in it",
    }
    raise TrialError(
        "The command does not train as it is.",
        why=f"{told.get(ran.ending, ran.ending)}.",
        hint="Run it without whyidle first; see whyidle doctor.",
    )


def _diagnosed(ran: Ran, healing: Healing) -> Diagnosis:
    note_end(ran.recording, ran.recording.parent.name, healing.command, None)
    return diagnose_recording(ran.recording)


def _again(healing: Healing) -> Diagnosis | None:
    """The diagnosis with what is kept; None where that run shows nothing."""
    seconds = within(LOOK_SHARE * healing.budget_s, LOOK_S)
    ran = healing.run(Asked(healing.edits(), seconds=seconds, patience_s=120.0, profile=True))
    try:
        return _diagnosed(ran, healing) if ran.good else None
    except InputError:
        return None


def _try(healing: Healing, candidate: Candidate) -> Judgement:
    """Pairs of arms, until they tell."""
    base = Asked(healing.edits(), steps=healing.steps, patience_s=PATIENCE * healing.arm_s + 60)
    treated = Asked(
        healing.edits(candidate),
        steps=healing.steps,
        patience_s=PATIENCE * healing.arm_s + 30,
    )
    bench = Bench(
        base=lambda: healing.run(base),
        treated=lambda: healing.run(treated),
        other=lambda: healing.run(Asked(base.edits, steps=base.steps, seed=1, patience_s=120.0)),
        affordable=lambda: healing.left_s > 3 * healing.arm_s,
        say=lambda text: healing.say(f"{candidate.treatment}: {text}"),
    )
    return judge.judge(candidate, bench, list(_alike(healing.judged)))


def _alike(judged: Sequence[Judgement]) -> Iterator[Sequence[float]]:
    for one in judged:
        yield from (group for group in (one.base_s, one.treated_s) if len(group) > 1)


def _whole(healing: Healing) -> Effect | None:
    """What all that is kept brings, measured where several are, and there is time."""
    kept = [one for one in healing.judged if one.kept]
    if len(kept) < 2:
        return kept[0].effect if kept else None
    base: list[float] = []
    treated: list[float] = []
    while len(base) < 2 and (healing.left_s > 2 * healing.arm_s or not base):
        healing.say("all that is kept against the job as it was")
        for edits, times in (((), base), (healing.edits(), treated)):
            ran = healing.run(Asked(edits, steps=healing.steps, patience_s=300.0))
            if not ran.good or ran.told is None:
                return None
            times.append(judge.steady(ran, healing.steps))
    return effect(base, treated, list(_alike(healing.judged)))
