"""The patch of what was kept, run once before it is handed over; where that was slower than the
trials promise, twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from whyidle.engine.applied import together
from whyidle.engine.patch import Kept, Patch, make_patch
from whyidle.engine.trial import said
from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.heal import Healed, bench, every
from whyidle.engine.trial.healing import Healing
from whyidle.engine.trial.loaded import found_as, unchecked
from whyidle.engine.trial.pair import Effect, step_s
from whyidle.engine.trial.same import hold
from whyidle.engine.trial.sized import resized, work_s
from whyidle.engine.trial.told import Told

AGAIN = 2
"""runs that a second look at the patched files takes"""
REFUSED = "No patch is handed over: "
STUMBLED = (
    "The patch was not run to its end: the job removes or makes anew a large folder, which is a "
    "link where the patched files are"
)


@dataclass(frozen=True, slots=True)
class Handover:
    """A patch, how many times as fast the patched files ran (None: not run), and a sentence about
    it. ``good`` is whether it may be handed over."""

    patch: Patch
    speedup: float | None
    told: str
    good: bool


def hand_over(healing: Healing, found: Healed, folder: Path) -> Handover | None:
    """Write what was kept into copies of the user's files, and run them; None where nothing was
    kept. ``folder`` is where the command starts."""
    if not found.kept:
        return None
    looks = reversed((found.before, *found.looks))  # of a cause that shows twice the first counts
    causes = {finding.cause: finding.where for look in looks for finding in look.findings}
    kept = [Kept(one.fix, one.edits, causes.get(one.cause, ())) for one in found.kept]
    patch = _made(healing, found, folder, kept)
    if not patch.diff:
        return Handover(patch, None, "", good=False)
    whole = _run(healing, found, patch)
    return whole if whole.good else _without_one(healing, found, folder, kept, whole)


def _made(healing: Healing, found: Healed, folder: Path, kept: Sequence[Kept]) -> Patch:
    judged = [one for one in (*found.judged, found.whole) if one is not None and one.kept]
    made = together(ran.made for one in judged for ran in one.treats)
    patch = make_patch(kept, list(healing.command), folder, found.before.device.kind, made)
    return found_as(patch, (ran for one in judged for ran in one.treats))


def _without_one(
    healing: Healing, found: Healed, folder: Path, kept: Sequence[Kept], whole: Handover
) -> Handover:
    """One fix may have been written wrongly: the patch without it, the last one first, where that
    runs as it should and there is time to see it; else what is known of the whole."""
    why = whole.told.removeprefix(REFUSED).rstrip(".")
    for left in reversed(kept):
        patch = _made(healing, found, folder, [one for one in kept if one is not left])
        if not patch.diff or patch.diff == whole.patch.diff:
            continue
        if healing.over_s < healing.arm_s:
            break
        handed = _run(healing, found, patch.lacks(left, f"left out: with it, too, {why}"))
        if handed.good:
            return whole if handed.speedup is None else handed  # it may not have been run
    return whole


def _run(healing: Healing, found: Healed, patch: Patch) -> Handover:
    healing.voice.say("the patched files, once")
    try:
        ran = healing.trial((), patch=patch)
    except OSError as error:
        return Handover(patch, None, f"The patch was not run: {error}.", good=True)
    except KeyboardInterrupt:
        return Handover(patch, None, "The patch was not run: it was stopped before.", good=True)
    if ran.ending == "full":
        return Handover(patch, None, f"The patch was not run to its end: {ran.full}.", good=True)
    if not ran.good or ran.told is None:
        last = said.last(ran.said)[:120]
        if ran.stumbled:
            return Handover(patch, None, f"{STUMBLED} ({last}).", good=True)
        told = f"{REFUSED}patched so, the job {ran.ending} ({last})."
        return Handover(patch, None, told, good=False)
    if why := unchecked(patch, ran):
        return Handover(patch, None, f"The patch could not be checked: {why}.", good=True)
    return _held(healing, found, patch, ran, ran.told)


def _held(healing: Healing, found: Healed, patch: Patch, ran: Ran, told: Told) -> Handover:
    """Hold the patched run against the untreated ones: the numbers decide, the speed is told."""
    first = next(one for one in found.judged if one.kept)
    known, numbers = (found.whole or first).untreated, ""
    if known:
        fix = every(healing)
        arms = replace(
            bench(healing, fix, (), ()),
            drawn=lambda steps: healing.numbers((), steps, eager=True, patch=patch),
        )
        check, _ = hold(fix, known, [ran], arms)
        if not check.holds:
            why = f"{REFUSED}patched so, {check.told}."
            return Handover(patch, None, why, good=False)
        numbers = f" Their numbers: {check.told}."
    times = _Times(list(first.base_s), [_patched_s(found, told)])
    gain = found.whole.effect if found.whole else None
    if gain is not None and not patch.lacking and times.below(gain):
        _again(healing, found, patch, times)
    said = times.told(gain, patch.lacking) + numbers
    return Handover(patch, times.speedup, said, good=True)


@dataclass(slots=True)
class _Times:
    """Seconds of a steady step, of the job as it was and of the patched files, run by run."""

    base_s: list[float]
    patched_s: list[float]

    @property
    def speedup(self) -> float:
        return fmean(self.base_s) / fmean(self.patched_s)

    def below(self, gain: Effect) -> bool:
        """Whether it is less than trials have found, beyond chance: single runs scatter more than
        the means of ``gain.pairs`` of them, whose interval is known. With as much scatter in each
        run, and ``n`` runs here, by the root of ``(1/pairs + 1/n) / (2/pairs)`` times as much."""
        wider = math.sqrt((1.0 + gain.pairs / len(self.patched_s)) / 2.0)
        return self.speedup < gain.speedup * (gain.low / gain.speedup) ** wider

    def told(self, gain: Effect | None, lacking: Sequence[str]) -> str:
        """What patched runs came to, and whether that is what trials have found, of all fixes: of
        files that lack some of them nobody knows how fast they would have been."""
        times = "once" if len(self.patched_s) == 1 else "twice"
        said = f"The patched files were run {times}: {self.speedup:.2f} times as fast as before"
        if gain is not None and lacking:
            rest = f"what is left to do by hand ({', '.join(lacking)})"
            return f"{said}; the {gain.speedup:.2f} of the trials is with {rest}."
        if gain is None or not self.below(gain):
            return f"{said}."
        return (
            f"{said}, less than in the trials ({gain.speedup:.2f}, {gain.low:.2f} to "
            f"{gain.high:.2f}): compare a longer run before you rely on it."
        )


def _patched_s(found: Healed, told: Told) -> float:
    """Seconds of a step; where fixes gave it more samples, of as many as it had."""
    known = found.whole.untreated.get(told.rank or 0) if found.whole else None
    if known is None or not any(resized(one) for one in found.kept):
        return step_s(told, len(told.marks))
    return work_s([known.base], [told])[1][0]


def _again(healing: Healing, found: Healed, patch: Patch, times: _Times) -> None:
    """Run both sides once more, side by side: machines are not as fast at all times."""
    if healing.over_s < AGAIN * healing.arm_s:
        return
    healing.voice.say("once more, beside the job as it is: they were slower than in the trials")
    try:
        base, ran = healing.trial(()), healing.trial((), patch=patch)
    except KeyboardInterrupt:  # what is known by then holds
        return
    if base.good and ran.good and base.told is not None and ran.told is not None:
        times.base_s.append(step_s(base.told, len(base.told.marks)))
        times.patched_s.append(_patched_s(found, ran.told))
