"""The patch of what was kept, run once before it is handed over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from whyidle.engine.patch import Kept, Patch, make_patch
from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.heal import Healed, bench, every
from whyidle.engine.trial.healing import Healing
from whyidle.engine.trial.judge import hold
from whyidle.engine.trial.pair import step_s
from whyidle.engine.trial.told import Told


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
    causes = {finding.cause: finding.where for finding in found.before.findings}
    kept = [Kept(one.treatment, one.edits, causes.get(one.cause, ())) for one in found.kept]
    patch = make_patch(kept, list(healing.command), folder, found.before.device.kind)
    if not patch.diff:
        return Handover(patch, None, "", good=False)
    return _run(healing, found, patch)


def _run(healing: Healing, found: Healed, patch: Patch) -> Handover:
    healing.voice.say("the patched files, once")
    try:
        ran = healing.trial((), patch=patch)
    except OSError as error:
        return Handover(patch, None, f"The patch was not run: {error}.", good=True)
    except KeyboardInterrupt:
        return Handover(patch, None, "The patch was not run: it was stopped before.", good=True)
    if not ran.good or ran.told is None:
        last = (ran.said.strip().splitlines() or [""])[-1]
        told = f"No patch is handed over: patched so, the job {ran.ending} ({last[:120]})."
        return Handover(patch, None, told, good=False)
    return _held(healing, found, patch, ran, ran.told)


def _held(healing: Healing, found: Healed, patch: Patch, ran: Ran, told: Told) -> Handover:
    """Hold the patched run against the untreated ones: the numbers decide, the speed is told."""
    first = next(one for one in found.judged if one.kept)
    known = (found.whole or first).untreated
    if known:
        fix = every(healing)
        arms = replace(
            bench(healing, fix, (), ()),
            drawn=lambda steps: healing.numbers((), steps, eager=True, patch=patch),
        )
        check, _ = hold(fix, known, [ran], arms)
        if not check.holds:
            why = f"No patch is handed over: patched so, {check.told}."
            return Handover(patch, None, why, good=False)
    speedup = fmean(first.base_s) / step_s(told, len(told.marks))
    why = f"The patched files were run once: {speedup:.2f} times as fast as before."
    return Handover(patch, speedup, why, good=True)
