"""One fix after another, with arms and looks that are made up."""

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest
from imagined_job import (
    FREEZE,
    MORE,
    SEEN,
    WORKERS,
    Executor,
    Job,
    Voice,
    both,
    diagnosis,
    proposed_fix,
    with_rate,
)
from made_arms import crowd, ran

from whyidle.errors import InputError, TrialError
from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.loop import fix_document, optimize, trial_session
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.optimize import is_wide
from whyidle.fix.loop.trial_result import TrialResult
from whyidle.fix.loop.trial_session import TrialSession
from whyidle.fix.statistics.startup_cost import StartupCost
from whyidle.model.diagnosis import Abstention, Edit, Place
from whyidle.store.plan_file import parse_plan, text_of

LOSSES = [1.0 / (i + 1) for i in range(60)]
BF16 = {"autocast__dtype": "bfloat16"}


def kept(found):
    return [one.fix for one in found.kept]


def test_what_is_hidden_shows_when_the_first_is_healed(tmp_path):
    looks = [diagnosis(WORKERS), diagnosis(FREEZE), diagnosis()]
    found = Job(tmp_path, looks, both).heal()
    assert kept(found) == ["loader-workers", "gc-freeze"]
    assert found.combined_trial.effect.speedup == pytest.approx(1 / 0.375, rel=0.01)
    assert found.after.findings == []
    told = fix_document.make_document(found)
    assert [trial.kept for trial in told.trials] == [True, True]
    assert told.detail.fixed.speedup == found.combined_trial.effect.speedup


def test_what_a_later_look_has_found_is_not_told_as_unknown(tmp_path):
    before, later = diagnosis(WORKERS), diagnosis(FREEZE)
    unknown = [Abstention(cause=name, missing=["x"], how="") for name in ("one", "another")]
    before = msgspec.structs.replace(before, abstentions=unknown)
    finding = msgspec.structs.replace(later.findings[0], cause="one")
    later = msgspec.structs.replace(later, findings=[finding], abstentions=unknown[1:])
    found = Job(tmp_path, [before, later, diagnosis()], both).heal()
    assert [one.cause for one in fix_document.make_document(found).abstentions] == ["another"]


def test_a_knob_that_is_turned_twice_stands_in_the_plan_once(tmp_path):
    looks = [diagnosis(WORKERS, FREEZE), diagnosis(MORE, FREEZE), diagnosis()]
    found = Job(tmp_path, looks, both).heal()
    assert kept(found) == ["loader-workers", "more-workers"]
    plan = parse_plan(text_of(fix_document.make_plan(found, ["train"])), "plan.toml")
    assert plan.settings == {"loader.workers": 8}


def test_a_job_is_run_further_without_and_with_a_fix_where_there_is_time(tmp_path):
    asked = []
    executor = Executor(lambda arm: asked.append(([one.knob for one in arm.edits], arm.steps)))
    job = TrialSession(
        [], tmp_path, executor, budget_s=100.0, allowed=(), listener=Voice(), arm_s=10.0
    )
    arms = optimize.make_arms(job, None, (), (Edit(knob="loader.workers", value=4),))
    arms.reaching(40, 20)
    arms.lasting(60, 20)
    assert asked == [([], 40), (["loader.workers"], 60)]
    assert arms.lasting(400, 20) is None  # twenty arms are more than there is time for
    assert len(asked) == 2


def test_what_is_kept_already_is_not_tried_again_as_another_fix(tmp_path):
    """A collector that our own fix calls is one that the script calls, as far as a look tells."""
    part = proposed_fix("again", 1.9, loader__workers=4)
    whole = proposed_fix("loader-workers", 2.0, loader__workers=4, gc__freeze=True)
    found = Job(tmp_path, [diagnosis(whole), diagnosis(part, MORE), diagnosis()], both).heal()
    assert [one.candidate.fix for one in found.judged] == ["loader-workers", "more-workers"]
    assert found.passed == []


def test_fixes_that_harm_each_other_are_given_up_from_the_end(tmp_path):
    def clash(turned):
        """Both together are slow once the job has been looked at with both."""
        return both(turned) if len(turned) < 2 or job.looks else 3.0

    job = Job(tmp_path, [diagnosis(WORKERS), diagnosis(FREEZE), diagnosis()], clash)
    found = job.heal()
    assert kept(found) == ["loader-workers"]
    assert "given up" in found.judged[1].rejection_text
    assert fix_document.make_plan(found, ["train"]).settings == {"loader.workers": 4}


@pytest.mark.parametrize("second", ["trial", "look"])
def test_ctrl_c_leaves_what_is_proven_by_then(tmp_path, second):
    looks = [diagnosis(WORKERS, FREEZE), diagnosis(FREEZE)]
    if second == "look":
        looks[1] = KeyboardInterrupt()
    found = Job(tmp_path, looks, both, interrupt="gc.freeze").heal()
    assert kept(found) == ["loader-workers"]
    assert [one.kept for one in found.judged] == [True]
    assert found.stopped
    assert found.after is not None
    assert fix_document.make_plan(found, ["train"]).settings == {"loader.workers": 4}
    told = fix_document.make_document(found)
    assert told.detail.fixed.speedup == found.judged[0].effect.speedup
    (stopped,) = [trial for trial in told.trials if trial.interrupted]
    amid = second == "trial"
    assert (stopped.fix, stopped.tried) == ("gc-freeze", amid)
    assert stopped.why == (optimize.AMID if amid else optimize.STOPPED)


def test_an_isolation_that_is_no_longer_available_leaves_what_is_proven_by_then(tmp_path):
    job = Job(tmp_path, [diagnosis(WORKERS, FREEZE), diagnosis(FREEZE)], both, "gc.freeze")
    job.error = TrialError(
        "Trials can no longer be isolated as before.", why="The machine is busy."
    )
    found = job.heal()
    assert kept(found) == ["loader-workers"]
    assert found.stopped == "Trials can no longer be isolated as before. The machine is busy."


def scattered():
    """As ``both``, on a machine whose runs are some percent apart."""
    ways = itertools.cycle((0.98, 1.02, 0.98, 1.02, 1.0, 1.0, 1.0, 1.0))
    return lambda turned: both(turned) * next(ways)


def test_what_is_kept_is_tried_again_where_its_gain_is_known_roughly(tmp_path):
    job = Job(tmp_path, [diagnosis(WORKERS), diagnosis()], scattered())
    found = job.heal()
    assert kept(found) == ["loader-workers"]
    assert found.combined_trial.effect.pairs == 3
    assert not is_wide(found.combined_trial.effect)


def test_all_together_is_tried_again_as_well(tmp_path):
    looks = [diagnosis(WORKERS), diagnosis(FREEZE), diagnosis()]
    ways = itertools.chain([1.0] * 8, (0.93, 1.07, 0.93, 1.07), itertools.repeat(1.0))
    found = Job(tmp_path, looks, lambda turned: both(turned) * next(ways)).heal()
    assert kept(found) == ["loader-workers", "gc-freeze"]
    assert found.combined_trial.candidate.fix == "all"
    assert found.combined_trial.effect.pairs > 2
    assert [one.effect.pairs for one in found.judged] == [2, 2]


def test_each_fix_that_is_kept_is_told_by_what_all_trials_say_of_the_scatter(tmp_path):
    looks = [diagnosis(WORKERS), diagnosis(FREEZE), diagnosis()]
    job = Job(tmp_path, looks, scattered())
    found = job.heal()
    assert kept(found) == ["loader-workers", "gc-freeze"]
    decided = job.healing.listener.effects
    assert is_wide(decided[0])
    for before, one in zip(decided, found.judged, strict=True):
        assert before.low < one.effect.low < one.effect.speedup < one.effect.high < before.high


def test_what_fails_when_it_is_tried_again_is_not_kept(tmp_path):
    job = Job(tmp_path, [diagnosis(WORKERS), diagnosis()], scattered())
    plain, count = job.trial, itertools.count()

    def trial(edits):
        found = plain(edits)
        crashes = edits and next(count) == 2
        return replace(found, ending="crashed", report=None) if crashes else found

    job.trial = trial
    found = job.heal()
    assert not kept(found)
    assert found.combined_trial is None
    assert found.after is None
    assert "rolled back: with it, the job crashed" in found.judged[0].rejection_text
    assert ("loader-workers", False) in job.healing.listener.told


def test_the_interval_of_a_single_pair_is_unknown(tmp_path):
    """Ruin ends a trial after one pair, which tells nothing of chance."""
    job = Job(tmp_path, [diagnosis(FREEZE)], lambda turned: 20.0 if turned else 1.0)
    (trial,) = fix_document.make_document(job.heal()).trials
    assert trial.speedup == pytest.approx(1 / 20)
    assert (trial.low, trial.high, trial.pairs) == (None, None, 1)


@pytest.mark.parametrize(("others", "said"), [(1.0, True), (0.0, False)])
def test_that_others_had_the_machine_all_along_is_told(tmp_path, others, said):
    """Of each arm as much, so that none is wronged, and all of them scatter."""
    have = psutil.cpu_count()
    paces = itertools.cycle((0.5, 2.0, 1.7, 0.6, 1.0))
    job = Job(tmp_path, [diagnosis(FREEZE)], lambda _: next(paces))
    plain = job.trial
    job.trial = lambda edits: crowd(plain(edits), others * have)
    found = fix_document.make_document(job.heal())
    assert found.trials[0].untold
    told = f"other programs used {have:.1f} of the machine's {have} cores"
    assert any(told in note for note in found.coverage.notes) == said


def test_without_a_fix_that_may_be_tried_nothing_runs(tmp_path):
    job = Job(tmp_path, [diagnosis()], both)
    found = job.heal()
    assert not found.judged
    assert found.after is None
    assert fix_document.make_document(found).detail.fixed is None


def test_what_the_budget_does_not_reach_is_said_in_seconds(tmp_path):
    job = Job(tmp_path, [diagnosis(WORKERS)], both)
    job.healing.budget_s = 2.0
    found = job.heal()
    assert not found.judged
    assert "needs about 4 s, and 2 s of the budget are left (--budget 1m)" in found.passed[0].why
    assert found.enough_s == 60.0


def test_what_time_was_wanting_to_tell_asks_for_more(tmp_path):
    wild = itertools.cycle((0.8, 1.2, 0.7, 1.3))
    job = Job(tmp_path, [diagnosis(FREEZE)], lambda turned: both(turned) * next(wild))
    job.healing.budget_s, job.arm_s, job.passing_s = 100.0, 22.0, 22.0
    found = job.heal()
    assert "no time was left for more" in found.judged[0].rejection_text
    assert found.enough_s == 300.0


def test_what_cures_the_verdicts_cause_has_time_kept_back_for_it(tmp_path):
    """Another one goes first, that promises far more, and cannot be told."""
    cure = proposed_fix("gc-freeze", 1.2, gc__freeze=True)
    predicted = msgspec.structs.replace(cure.predicted, high=1.4)
    cure = msgspec.structs.replace(cure, predicted=predicted)
    found = diagnosis(WORKERS)
    mine = msgspec.structs.replace(found.findings[0], cause="python-gc-pauses")
    mine = msgspec.structs.replace(mine, fixes=[cure])
    found = msgspec.structs.replace(found, findings=[*found.findings, mine])

    def tried(about):
        wild = itertools.cycle((0.8, 1.2, 0.7, 1.3, 0.9))
        verdict = msgspec.structs.replace(found.verdict, cause=about)
        look = msgspec.structs.replace(found, verdict=verdict)
        job = Job(tmp_path, [look], lambda _: next(wild))
        job.healing.budget_s, job.passing_s = 12.0, 1.0
        return [(one.candidate.fix, len(one.bases)) for one in job.heal().judged]

    assert tried("python-gc-pauses") == [("loader-workers", 3), ("gc-freeze", 2)]
    assert tried(None) == [("loader-workers", 5)]


def test_with_something_kept_what_is_needed_counts_the_last_checks(tmp_path):
    """What is left would do for a trial, and is kept back for the end: both numbers are told."""
    looks = [diagnosis(WORKERS), diagnosis(FREEZE)]
    job = Job(tmp_path, looks, both)
    job.healing.budget_s = 4.6
    found = job.heal()
    assert kept(found) == ["loader-workers"]
    assert (
        "needs about 6 s with the final checks, and 5 s of the budget are left"
        in found.passed[0].why
    )


@pytest.mark.parametrize(("promised", "tried"), [(1.2, False), (1.4, True)])
def test_for_what_promises_much_the_budget_is_passed_a_little(tmp_path, promised, tried):
    looks = [diagnosis(WORKERS), diagnosis(proposed_fix("gc-freeze", promised, gc__freeze=True))]
    looks.append(diagnosis())
    job = Job(tmp_path, looks, both)
    job.healing.budget_s = 5.0
    found = job.heal()
    assert ("gc-freeze" in [one.candidate.fix for one in found.judged]) == tried


def test_numbers_of_the_outcome_agree_with_each_other(tmp_path):
    """Looks are taken at other times than trials: their rates are not set beside a trial's gain."""
    first, last = (with_rate(diagnosis(*fixes), 100.0) for fixes in ([WORKERS], [FREEZE]))
    job = Job(tmp_path, [first, last, diagnosis()], both)
    job.healing.budget_s = 4.6
    healed = fix_document.make_document(job.heal()).detail.fixed
    assert healed.samples_per_s / healed.samples_per_s_before == pytest.approx(healed.speedup)


@pytest.mark.parametrize(
    ("watched_s", "parts", "told"),
    [
        (0.1, (1, 1, 1, 1), True),
        (0.12, (1, 1, 1, 1), True),
        (0.2, (1, 1, 1, 1), False),
        (0.05, (1, 1, 1, 1), False),
        (0.2, (1, 2, 3, 2), True),  # the watched steps themselves differ by as much
    ],
)
def test_a_gain_over_a_job_that_was_not_watched_is_not_told(tmp_path, watched_s, parts, told):
    look = diagnosis(WORKERS)
    times = [watched_s / 2 * part for part in parts for _ in range(10)]
    first = msgspec.structs.replace(
        look,
        steps=msgspec.structs.replace(look.steps, mean_s=watched_s),
        detail=msgspec.structs.replace(look.detail, step_times_s=times, steady=[True] * 40),
    )
    fixed = fix_document.make_document(
        Job(tmp_path, [first, diagnosis()], both).heal()
    ).detail.fixed
    assert (fixed.speedup is not None) == told
    both_times = (
        f"took 100 ms a step in the trials and {watched_s * 1e3:.0f} ms when it was watched"
    )
    assert (both_times in fixed.doubt) != told


def test_what_a_fix_costs_at_the_start_is_a_share_of_what_is_left(tmp_path):
    looks = [diagnosis(WORKERS), diagnosis()]
    found = Job(tmp_path, looks, both).heal()
    assert fix_document.make_document(found).detail.fixed.startup_share is None
    found.combined_trial.once = StartupCost(2.0, 40.0)
    found.combined_trial.remaining_steps = 100.0
    fixed = fix_document.make_document(found).detail.fixed
    assert fixed.startup_share == pytest.approx(2.0 / (100 * 0.1))


def test_a_finding_that_the_verdict_names_is_told_once_of_what_remains(tmp_path):
    starved = msgspec.structs.replace(
        diagnosis(FREEZE).verdict, state="starved", headline="It waits 60% of the time. Because."
    )
    last = msgspec.structs.replace(diagnosis(FREEZE), verdict=starved)
    place = Place(file="train.py", line=9, function=None)
    found = msgspec.structs.replace(last.findings[0], where=[place])
    last = msgspec.structs.replace(last, findings=[found, *last.findings[1:]])
    job = Job(tmp_path, [diagnosis(WORKERS), last], both)
    job.healing.budget_s = 4.6
    healed = fix_document.make_document(job.heal()).detail.fixed
    assert healed.left[0] == "It waits 60% of the time"
    assert last.findings[0].headline in healed.left[1]
    assert last.findings[0].exceeds_bucket
    assert "% of the step): do gc-freeze" in healed.left[1]  # a fix may win more: not at most
    assert ", train.py:9, " in healed.left[1]


def test_what_remains_says_what_it_would_take_and_why_that_was_not_done(tmp_path):
    hand = msgspec.structs.replace(proposed_fix("by-hand", 1.5), automatic=False)
    asks = msgspec.structs.replace(proposed_fix("autocast", 1.5, **BF16), consent="numerics")

    def left(*fixes, speeds=both):
        job = Job(tmp_path, [diagnosis(WORKERS), *[diagnosis(*fixes)] * 3], speeds)
        told = fix_document.make_document(job.heal()).detail.fixed.left[-1]
        return told.rpartition("of the step): ")[2]

    assert left(hand, asks) == "do by-hand (apply it yourself: it needs knowledge of the job)"
    assert left(asks, hand) == "do autocast (needs your permission: --allow numerics)"

    def slow(turned):
        return both(turned) * (2.0 if "gc.freeze" in turned else 1.0)

    assert left(FREEZE, speeds=slow) == "do gc-freeze (tried, not kept: slower)"
    assert left(FREEZE, hand, speeds=slow).startswith("do by-hand (apply it yourself")
    assert left(WORKERS) == "do loader-workers (kept, but not sufficient)"
    long = msgspec.structs.replace(hand, summary="do it " * 99)
    assert left(long).endswith(" ... (apply it yourself: it needs knowledge of the job)")


def test_the_number_is_searched_before_the_fix_is_tried(tmp_path):
    """4 is the model's, 8 is faster, and is not tried a second time when it is proposed."""
    edit = Edit(knob="loader.workers", value=4, among=(4, 8))
    workers = msgspec.structs.replace(WORKERS, edits=[edit])
    raced = []
    job = Job(tmp_path, [diagnosis(workers), diagnosis()], both)

    def answer(asked):
        raced.append({one.knob: one.value for one in asked.edits})
        return job.trial(asked.edits)

    job.answer = answer
    found = job.heal()
    assert raced[:2] == [{"loader.workers": 4}, {"loader.workers": 8}]
    assert fix_document.make_plan(found, ["train"]).settings == {"loader.workers": 8}
    (told,) = fix_document.make_document(found).trials
    assert {one.value: one.ended for one in told.searched} == {4: "through", 8: "through"}
    assert told.speedup == pytest.approx(1 / 0.3, rel=0.01)
    assert "num_workers=8" in told.summary


def unsure(*fixes, duration_s=10.0, status=None):
    found = diagnosis(*fixes)
    verdict = msgspec.structs.replace(found.verdict, state="inconclusive")
    run = msgspec.structs.replace(found.run, duration_s=duration_s, exit_status=status)
    return msgspec.structs.replace(found, verdict=verdict, run=run)


@pytest.mark.parametrize(
    ("first", "times"),
    [
        (unsure(), [1, 4]),
        (unsure(FREEZE), [1]),  # there is something to try
        (unsure(status=0), [1]),  # it was over
        (unsure(duration_s=1e6), [1]),  # no time
        (diagnosis(), [1]),  # it is sure that there is nothing
    ],
)
def test_what_says_nothing_for_sure_is_watched_longer(tmp_path, first, times):
    job = Job(tmp_path, [first, diagnosis(WORKERS), diagnosis()], both)
    found = job.heal()
    assert job.times[: len(times)] == times
    if len(times) > 1:
        assert kept(found) == [WORKERS.fix]
    elif first.findings == []:
        assert job.times == [1]


def test_a_longer_look_that_fails_takes_nothing_back(tmp_path):
    gone = TrialError("It is gone.", why="", hint="")
    assert Job(tmp_path, [unsure(), gone], both).heal().stopped is None


def test_what_will_be_tried_is_told_after_the_first_look(tmp_path):
    job = Job(tmp_path, [diagnosis(WORKERS, FREEZE), diagnosis()], both)
    job.heal()
    assert job.healing.listener.told[1] == ["loader-workers", "gc-freeze"]


def look_at(folder, ran):
    """Watch a command whose only arm ends so."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    executor = Executor(lambda _: ran)
    return trial_session.watch_job(
        TrialSession(["train"], folder, executor, 60.0, {"none"}, Voice())
    )


@pytest.mark.parametrize(
    ("ending", "steps", "said"),
    [
        ("crashed", 30, ("fails after 30 steps: RuntimeError: shard 7", "without whyidle")),
        ("crashed", 0, ("fails: RuntimeError: shard 7", "without whyidle")),
        ("silent", 0, ("does not train", "whyidle run")),
        ("hung", 1, ("stopped after 1 step, 4 s after its start", "--budget")),
        ("hung", 0, ("stopped after 0 steps", "replaces PYTHONPATH")),
        ("full", 1, ("its files fill the disk", "TMPDIR=")),
        ("finished", 5, ("Only 5 training steps were recorded", "Train longer")),
    ],
)
def test_why_a_job_cannot_be_tried(tmp_path, ending, steps, said):
    told = ProcessReport(ending, 0, [int(1e8 * i) for i in range(steps)], []) if steps else None
    text = "Traceback\nRuntimeError: shard 7\n"
    ran = ArmResult(ending, 1, 4.0, tmp_path, text, told, full="it is kept in a small place")
    with pytest.raises(TrialError) as raised:
        look_at(tmp_path, ran)
    assert said[0] in raised.value.what
    assert said[1] in raised.value.hint


def test_a_job_whose_steps_could_not_be_observed_is_not_one_that_does_not_train(tmp_path):
    (tmp_path / "1.faults").write_text("loss: TypeError: no scalar\n")
    with pytest.raises(TrialError, match="could not be observed") as raised:
        look_at(tmp_path, ArmResult("silent", 0, 4.0, tmp_path, "", None))
    assert "TypeError: no scalar" in raised.value.why


@pytest.mark.parametrize("undiagnosed", [False, True])
def test_a_job_is_short_as_it_was_not_because_it_is_healed(tmp_path, undiagnosed):
    """60 steps of 83 ms take 4.3 ms with workers: what is left of the job lasts 0.3 s. A short
    recording may not be diagnosed, which is no fault of the fix."""

    def answer(one):
        step_s = 4.3e-3 if one.edits else 83e-3
        applied = {edit.knob: 1 for edit in one.edits}
        return replace(ran(step_s, LOSSES, ending="finished"), applied=applied)

    def diagnose(_):
        if undiagnosed and looks == 1:
            raise InputError("Too short.", why="There are too few samples.")
        return diagnosis(WORKERS)

    def look(session, times):
        nonlocal looks
        found = trial_session.watch_job(session, times, diagnose)
        looks += 1
        return found

    looks = 0
    job = TrialSession(["train"], tmp_path, Executor(answer), 1e4, {"none"}, Voice())
    found = optimize.optimize(job, look)
    assert kept(found) == ["loader-workers"]
    assert found.combined_trial.effect.speedup == pytest.approx(83 / 4.3, rel=0.01)
    assert ("not diagnosed again: There are" in "".join(found.judged[0].notes)) is undiagnosed
    assert fix_document.make_document(found).trials[0].kept


def test_a_job_that_is_short_without_a_fix_is_not_tried(tmp_path):
    told = ProcessReport("finished", 0, [int(4.3e6 * i) for i in range(60)], [])
    with pytest.raises(TrialError, match="trains for only 254 ms"):
        look_at(tmp_path, ArmResult("finished", 0, 1.0, tmp_path, "", told))


def test_what_a_failing_command_printed_is_not_called_its_error(tmp_path):
    with pytest.raises(TrialError, match=r"The command fails. Its last output: hi"):
        look_at(tmp_path, ArmResult("crashed", 3, 4.0, tmp_path, "hi\n", None))


def test_a_file_of_the_job_s_that_is_missing_is_not_the_command(tmp_path):
    lost = "FileNotFoundError: [Errno 2] No such file or directory: 'photos'"
    for text, told in ((f"Traceback\n{lost}\n", "The command fails"), (lost, "cannot be run")):
        found = ArmResult("crashed", 1, 4.0, tmp_path, text, None)
        with pytest.raises(TrialError, match=told):
            look_at(tmp_path, found)


def test_a_look_goes_on_until_there_are_enough_steps_however_long_one_takes(tmp_path):
    """Steps of 4 s: the seconds of a look alone would show too few of them."""
    asked = []

    def answer(one):
        asked.append(one)
        told = ProcessReport("stopped", 0, [int(4e9 * i) for i in range(one.steps)], [])
        return ArmResult("stopped", 0, 50.0, tmp_path / "recording", "", told)

    job = TrialSession(["train"], tmp_path, Executor(answer), 300.0, {"none"}, Voice())
    found = trial_session.watch_job(job, diagnose=lambda _: SEEN)
    assert found.findings == SEEN.findings
    assert found.run.started
    assert (found.run.duration_s, found.run.exit_status) == (50.0, None)
    assert job.arm_s == pytest.approx(50.0 - 44.0 + 48.0)


def test_compiling_may_take_what_is_left_of_the_budget(tmp_path):
    asked = []
    executor = Executor(lambda one: asked.append(one.patience_s))
    job = TrialSession(["train"], tmp_path, executor, 900.0, {"none"}, Voice(), arm_s=5.0)
    job.run_trial_arm(())
    job.run_trial_arm((Edit(knob="model.compile_dynamic", value=True),))
    job.run_numeric_arm((Edit(knob="model.compile", value=True),), 20)
    assert asked[0] == 50.0
    assert asked[1:] == pytest.approx([900.0, 900.0], abs=60)
    edit = Edit(knob="model.compile", value=True)  # from then on arms are timed with it
    compiled = Candidate("compile-model", "", "rounding", "", (edit,), None, "")
    job.judged.append(TrialResult(compiled, kept=True))
    job.run_trial_arm((Edit(knob="model.compile", value=True),))
    assert asked[-1] == 50.0
    job.judged.clear()
    job.budget_s = 1.0
    job.run_trial_arm((Edit(knob="model.compile", value=True),))
    assert asked[-1] == 50.0


def test_what_the_job_took_no_number_of_in_a_race_is_not_tried_in_pairs(tmp_path):
    among = msgspec.structs.replace(WORKERS.edits[0], among=(4, 8, 2))
    workers = msgspec.structs.replace(WORKERS, edits=[among])
    job = Job(tmp_path, [diagnosis(workers, FREEZE), diagnosis()], both)

    def answer(asked):
        if any(edit.knob == "loader.workers" for edit in asked.edits):
            return replace(job.trial(()), declined={"loader.workers": "it is a stream"})
        return job.trial(asked.edits)

    job.answer = answer
    found = job.heal()
    assert kept(found) == ["gc-freeze"]
    trial = fix_document.make_document(found).trials[0]
    assert (trial.fix, trial.why) == ("loader-workers", "declined: it is a stream")
    assert not found.judged[0].bases


def test_of_a_fix_whose_arms_take_long_there_is_one_pair_and_a_budget_that_would_do(tmp_path):
    """Compiling takes as long as it takes, of which arms without it say nothing."""
    job = Job(tmp_path, [diagnosis(WORKERS)], both)
    plain = job.trial
    job.trial = lambda edits: replace(plain(edits), seconds=90.0 if edits else 1.0)
    job.healing.budget_s = 60.0
    found = job.heal()
    (only,) = found.judged
    assert (only.kept, only.effect.pairs, only.rejection_kind) == (False, 1, "untold")
    assert "no time was left for more" in only.rejection_text
    assert found.enough_s == 120.0
