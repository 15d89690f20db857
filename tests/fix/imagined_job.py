"""A job whose arms and looks are made up."""

import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
from made_arms import ran

from imagined_jobs import SICK
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.fix.loop import optimize
from whyidle.fix.loop.trial_session import TrialSession
from whyidle.model.diagnosis import Edit, Predicted, ProposedFix

SEEN = next(found for job in SICK.values() if (found := diagnose_job([job().timeline()])).findings)
STEP_S = 0.1


def proposed_fix(name, speedup, **edits):
    return ProposedFix(
        fix=name,
        summary=f"do {name}",
        edits=[Edit(knob=knob.replace("__", "."), value=to) for knob, to in edits.items()],
        consent="none",
        automatic=True,
        predicted=Predicted(speedup=speedup, low=1.1, high=3.0, method="made up"),
        risk="",
    )


WORKERS = proposed_fix("loader-workers", 2.0, loader__workers=4)
MORE = proposed_fix("more-workers", 1.5, loader__workers=8)
FREEZE = proposed_fix("gc-freeze", 1.4, gc__freeze=True)


def diagnosis(*fixes):
    finding = msgspec.structs.replace(SEEN.findings[0], fixes=list(fixes))
    steps = msgspec.structs.replace(SEEN.steps, mean_s=STEP_S)
    return msgspec.structs.replace(SEEN, findings=[finding] if fixes else [], steps=steps)


def with_rate(found, samples_per_s):
    steps = msgspec.structs.replace(found.steps, samples_per_s=samples_per_s)
    return msgspec.structs.replace(found, steps=steps)


class Voice:
    def __init__(self):
        self.told, self.effects = [], []

    def show_stage(self, text):
        self.told.append(text)

    def show_watched_job(self, diagnosis, ready):
        self.told.append([one.fix for one in ready])

    def show_trial_result(self, judgement):
        self.told.append((judgement.candidate.fix, judgement.kept))
        self.effects.append(judgement.effect)


class Executor:
    """Answers each arm as ``answer`` says for what is asked."""

    def __init__(self, answer):
        self.answer = answer

    def run_arm(self, asked, folder):
        return self.answer(asked)


class Job:
    """A step takes ``speeds`` of the knobs that are turned; the looks are handed out in turn."""

    error: BaseException = KeyboardInterrupt()

    def __init__(self, folder, looks, speeds, interrupt=None):
        self.looks, self.speeds, self.interrupt = list(looks), speeds, interrupt
        folder = Path(tempfile.mkdtemp(dir=folder))
        self.healing = TrialSession(["train"], folder, self, 1e6, {"none"}, Voice())
        self.arm_s, self.passing_s = 1.0, 0.0
        self.times = []

    def look(self, healing, times):
        self.times.append(times)
        healing.arm_s = self.arm_s
        found = self.looks.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    def run_arm(self, asked, folder):
        """As an executor does; ``passing_s`` of the budget are gone then."""
        self.healing.begun -= self.passing_s
        return self.answer(asked)

    def answer(self, asked):
        return self.trial(asked.edits)

    def trial(self, edits):
        if self.interrupt and any(edit.knob == self.interrupt for edit in edits):
            raise self.error
        turned = {edit.knob: edit.value for edit in edits}
        step_s = STEP_S * self.speeds(turned)
        return replace(ran(step_s), applied=dict.fromkeys(turned, 1))

    def heal(self):
        return optimize.optimize(self.healing, self.look)


def both(turned):
    """The loader's workers halve the step for each doubling, the collector takes a quarter."""
    loaded = {None: 1.0, 4: 0.5, 8: 0.3}[turned.get("loader.workers")]
    return loaded * (0.75 if turned.get("gc.freeze") else 1.0)
