"""Arms that are made up, and the fix that they try."""

from dataclasses import replace
from pathlib import Path

import pytest

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.arms.process_tree import TreeSample
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.trial_result import ArmFactory
from whyidle.model.diagnosis import Edit

LOSSES = [1.0 / (i + 1) for i in range(40)]
FIX = Candidate(
    fix="loader-workers",
    cause="dataloader-no-workers",
    consent="none",
    summary="",
    edits=(Edit(knob="loader.workers", value=2, was=0),),
    predicted=None,
    risk="",
)


def ran(step_s, losses=LOSSES, *, ending="stopped", took=True, said="", declined=None):
    marks = [int(1e9 + step_s * i * 1e9) for i in range(len(losses))]
    good = ending in ("stopped", "finished")
    told = (
        ProcessReport(ended="stopped", begun=0, marks=marks, losses=list(losses)) if good else None
    )
    return ArmResult(
        ending=ending,
        status=None if ending == "hung" else int(not good),
        seconds=1.0,
        recording=Path("nowhere"),
        output_end=said,
        report=told,
        ranks={} if told is None else {0: told},
        applied={"loader.workers": 1} if took else {},
        declined=declined or {},
    )


def several(step_s, *losses):
    """An arm of several ranks."""
    each = [ran(step_s, one).report for one in losses]
    return replace(ran(step_s), report=each[0], ranks=dict(enumerate(each)))


def telling(arm, **changes):
    """The arm with another report."""
    told = replace(arm.report, **changes)
    return replace(arm, report=told, ranks={0: told})


def crowd(arm, cores):
    """The arm, beside which others took so many of the machine's cores."""
    first = arm.report.marks[0]
    seen = [(mark, (mark - first) / 1e9) for mark in arm.report.marks]
    samples = [TreeSample(mark, 0, 0, at, 1.0 + at * (1 + cores)) for mark, at in seen]
    return replace(arm, samples=samples)


def bench(base, treated, other=None, affordable=True, **more):
    """Each is a list of arms that are handed out in turn, the last one again and again; what is an
    exception is raised."""

    def turn(arms):
        def run():
            one = arms.pop(0) if len(arms) > 1 else arms[0]
            if isinstance(one, BaseException):
                raise one
            return one

        return run

    return ArmFactory(
        base=turn(list(base)),
        treated=turn(list(treated)),
        other=turn([other or ran(0.1)]),
        affordable=lambda: affordable,
        say=lambda _: None,
        **{
            "swayed": lambda seed, steps: pytest.fail("not asked for"),
            "drawn": lambda steps: pytest.fail("not asked for"),
            **more,
        },
    )
