"""What comes so rarely that an arm holds hardly any of it."""

from dataclasses import replace

import msgspec
import pytest
from imagined_job import FREEZE, Executor, Job, diagnosis

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.loop import trial_session
from whyidle.fix.loop.candidates import choose_candidates
from whyidle.fix.loop.trial_session import LOOK_S, LOOK_SHARE, TrialSession, clamp
from whyidle.fix.statistics.rare_events import COUNTED, RareEvent, arm_s, find_rare_event
from whyidle.model.diagnosis import Evidence
from whyidle.testing.builder import Builder, ms, us

EVERY_95_S = RareEvent("an evaluation", 95.0, once=False)
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
FRAMES = {
    "sync-checkpoint": "torch/serialization.py(900): save",
    "heavy-evaluation": "/home/u/train.py(50): evaluate",
}


@pytest.mark.parametrize(
    ("budget_s", "look", "plain", "rare"),
    [
        (20.0, 6.0, 3.0, 3.0),
        (300.0, 12.0, 7.5, 7.5),  # the default's: as short as ever
        (900.0, 36.0, 20.0, 22.5),
        (3600.0, 144.0, 20.0, 90.0),
        (4 * 3600.0, 576.0, 20.0, 285.0),  # three evaluations, and no more
        (24 * 3600.0, 600.0, 20.0, 285.0),
    ],
)
def test_looks_grow_with_the_budget_and_arms_where_they_must(budget_s, look, plain, rare):
    assert clamp(LOOK_SHARE * budget_s, LOOK_S) == pytest.approx(look)
    assert arm_s(budget_s, []) == pytest.approx(plain)
    assert arm_s(budget_s, [RareEvent("a checkpoint", 1.0, once=False)]) == pytest.approx(plain)
    assert arm_s(budget_s, [EVERY_95_S]) == pytest.approx(rare)


def test_what_budget_would_do_is_said_and_would_do():
    told = EVERY_95_S.explain_budget(7.5)
    assert told == (
        "needs --budget 127m: an evaluation occurs every 95 s, a trial has 8 s of steps"
    )
    assert EVERY_95_S.needs_s == 127 * 60.0
    assert EVERY_95_S.explain_budget(arm_s(EVERY_95_S.needs_s, [EVERY_95_S])) == ""
    once = RareEvent("a checkpoint", 12.0, once=True).explain_budget(7.5)
    assert once.startswith("may need --budget 16m: a checkpoint occurred once in 12 s")
    daily = RareEvent("a checkpoint", 3e4, once=False)
    assert daily.needs_s is None
    assert "--budget" not in daily.explain_budget(20.0)


@pytest.mark.parametrize("cause", FRAMES)
@pytest.mark.parametrize(("every", "once", "apart"), [(2, False, 2), (6, True, 8)])
def test_how_often_it_comes_is_read_from_the_evidence(cause, every, once, apart):
    found = diagnose_job([pausing(FRAMES[cause], every).timeline()])
    (finding,) = [one for one in found.findings if one.cause == cause]
    told = find_rare_event(finding, found)
    assert told.what == COUNTED[cause][1]
    assert told.once is once
    assert told.every_s == pytest.approx(apart * found.steps.mean_s, rel=0.3)
    ready, aside = choose_candidates(found, {"none", "rounding"})
    own = [one for one in (*ready, *(each.candidate for each in aside)) if one.cause == cause]
    assert own or cause == "sync-checkpoint"  # whose fixes are by hand
    assert all(one.rare == told for one in own)


def pausing(frame, every, steps=8):
    made = Builder()
    for step in range(steps):
        with made.step(), made.span("/home/u/train.py(20): main", "python_function"):
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
            if step % every == every - 1:
                with made.span(frame, "python_function"):
                    made.quiet(ms(30))
    return made


def evaluating(every_s):
    """A diagnosis whose one finding is of evaluations so many seconds apart."""
    found = diagnosis(FREEZE)
    steps = msgspec.structs.replace(found.steps, mean_s=0.1, count=1000)
    counted = Evidence(
        quantity="evaluations",
        value=round(100.0 / every_s),
        unit=None,
        window=None,
        samples=1000,
        source=None,
    )
    finding = msgspec.structs.replace(
        found.findings[0], cause="heavy-evaluation", evidence=[counted]
    )
    return msgspec.structs.replace(found, steps=steps, findings=[finding])


def test_a_fix_whose_pauses_no_arm_holds_says_what_budget_would_do(tmp_path):
    """Nothing is gained in arms that hold no evaluation."""
    job = Job(tmp_path, [evaluating(25.0)], lambda _: 1.0)
    job.healing.seconds = 7.5
    found = job.heal()
    (judged,) = found.judged
    assert judged.rejection_text.endswith(
        "; needs --budget 34m: an evaluation occurs every 25 s, a trial has 8 s of steps"
    )
    assert found.enough_s == 34 * 60.0


def test_what_arms_hold_often_enough_needs_no_more(tmp_path):
    job = Job(tmp_path, [evaluating(2.0)], lambda _: 1.0)
    job.healing.seconds = 7.5
    found = job.heal()
    assert "--budget" not in found.judged[0].rejection_text
    assert found.enough_s is None


def test_a_job_that_was_seen_to_its_end_is_not_told_to_run_longer(tmp_path):
    job = Job(tmp_path, [evaluating(25.0)], lambda _: 1.0)
    job.healing.seconds = 7.5
    job.answer = lambda asked: replace(job.trial(asked.edits), ending="finished")
    assert "--budget" not in job.heal().judged[0].rejection_text


def test_a_look_that_sees_it_makes_arms_longer(tmp_path):
    def answer(_):
        told = ProcessReport("stopped", 0, [int(1e9 * i) for i in range(200)], [])
        return ArmResult("stopped", 0, 210.0, tmp_path / "recording", "", told)

    for budget_s, seconds in ((300.0, 7.5), (3600.0, 75.0)):
        job = TrialSession(
            ["train"], tmp_path / str(budget_s), Executor(answer), budget_s, {"none"}, None
        )
        trial_session.watch_job(job, diagnose=lambda _: evaluating(25.0))
        assert job.seconds == pytest.approx(seconds)
        assert job.arm_s == pytest.approx(11.0 + max(seconds, 12.0), abs=3.0)
        trial_session.watch_job(job, diagnose=lambda _: diagnosis(FREEZE))
        # healed, it is still held by arms: they are compared with the others
        assert job.seconds == pytest.approx(seconds)
