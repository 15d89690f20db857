"""Which number of a knob is taken, from races that are made up."""

import resource
from dataclasses import replace

import made_arms
import msgspec
import pytest
from imagined_job import Voice
from made_arms import ran

from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.trial_session import TrialSession
from whyidle.fix.loop.value_search import (
    choose_candidate_value,
    choose_value,
    workers_within_limits,
)
from whyidle.model.diagnosis import Edit

WORKERS = Edit(knob="loader.workers", value=4, was=0, among=(4, 8, 2, 16, 1))
KEEP = Edit(knob="loader.persistent_workers", value=True)
FIX = replace(made_arms.FIX, consent="rounding", summary="the model's words", edits=(WORKERS, KEEP))


class Engine:
    """A step takes ``step_s`` of the number; None: it crashes. ``declined`` is by number why it
    took no hold, which it does where nothing is said."""

    def __init__(self, step_s, declined=None):
        self.step_s, self.declined, self.raced = step_s, declined or {}, []

    def run_arm(self, asked, _folder):
        number = {edit.knob: edit.value for edit in asked.edits}["loader.workers"]
        self.raced.append(number)
        return self._ran(number)

    def _ran(self, number):
        each, why = self.step_s[number], self.declined.get(number)
        declined = {"loader.workers": why} if why else {}
        ending = "crashed" if each is None else "stopped"
        return ran(each or 1.0, ending=ending, took=why is None, declined=declined)


def healing(tmp_path, engine, budget_s=1e4, arm_s=10.0):
    found = TrialSession(["train"], tmp_path, engine, budget_s, {"none"}, Voice())
    found.arm_s, found.seconds = arm_s, 4.0
    return found


def settled(tmp_path, step_s, fix=FIX, **options):
    engine = Engine(step_s)
    found = choose_candidate_value(healing(tmp_path, engine, **options), fix)
    return found.candidate, found.searched, engine


def number(candidate):
    return {edit.knob: edit.value for edit in candidate.edits}["loader.workers"]


def test_the_fastest_is_taken_not_the_largest(tmp_path):
    found, told, _ = settled(tmp_path, {1: 0.9, 2: 0.4, 4: 0.3, 8: 0.2, 16: 0.25})
    assert number(found) == 8
    assert [one.value for one in told] == [4, 8, 2, 16, 1]
    assert found.edits[1] == KEEP
    assert "num_workers=8" in found.summary
    assert "persistent_workers=True" in found.summary


def test_of_those_about_as_fast_the_least_is_taken(tmp_path):
    found, _, _ = settled(tmp_path, {1: 0.9, 2: 0.206, 4: 0.2, 8: 0.2, 16: 0.199})
    assert number(found) == 2


def test_no_more_workers_are_tried_than_open_files_allow(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (120, before[1]))
    try:
        found, told, _ = settled(tmp_path, {1: 0.9, 2: 0.5, 4: 0.3, 5: 0.25, 8: 0.2, 16: 0.1})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert number(found) == 5
    assert max(one.value for one in told) == 5
    assert "num_workers=5" in found.summary


def test_the_number_of_the_model_keeps_its_words(tmp_path):
    found, _, _ = settled(tmp_path, {1: 0.9, 2: 0.4, 4: 0.1, 8: 0.2, 16: 0.2})
    assert found is not None
    assert found.summary == FIX.summary
    assert found.edits == FIX.edits


def test_one_that_crashes_is_not_taken(tmp_path):
    found, told, _ = settled(tmp_path, {1: 0.9, 2: 0.8, 4: 0.4, 8: 0.2, 16: None})
    assert number(found) == 8
    ended = {one.value: one.ended for one in told}
    assert ended == dict.fromkeys((1, 2, 4, 8), "through") | {16: "failed"}


NUMBERS = (1, 2, 4, 8, 16)
ALIKE = dict.fromkeys(NUMBERS, 0.1)


@pytest.mark.parametrize(
    ("step_s", "declined", "why"),
    [
        (ALIKE, dict.fromkeys(NUMBERS, "it is a stream"), "declined: it is a stream"),
        (ALIKE | {8: None}, {1: "few", 2: "few", 4: "many", 16: "many"}, "declined: many"),
        (ALIKE, dict.fromkeys(NUMBERS, ""), "declined: it took no effect in this job"),
        (dict.fromkeys(NUMBERS), {}, "rolled back: with it, the job crashed"),
    ],
    ids=["declined", "one crashes", "not taken up", "crashed"],
)
def test_without_a_number_that_the_job_takes_it_ends(tmp_path, step_s, declined, why):
    found = choose_candidate_value(healing(tmp_path, Engine(step_s, declined)), FIX)
    assert found.why
    assert found.why.text == why
    assert found.candidate == FIX
    assert [one.value for one in found.searched] == [4, 8, 2, 16, 1]
    assert not {one.ended for one in found.searched} - {"declined", "failed"}


def test_the_only_number_that_the_job_takes_is_tried(tmp_path):
    stream = {number: "it is a stream" for number in NUMBERS if number > 1}
    found = choose_candidate_value(healing(tmp_path, Engine(ALIKE, stream)), FIX)
    assert (number(found.candidate), found.why) == (1, None)


def test_where_another_setting_takes_hold_the_pair_goes_on(tmp_path):
    class Keeps(Engine):
        def _ran(self, number):
            return replace(super()._ran(number), applied={"loader.persistent_workers": 1})

    found = choose_candidate_value(healing(tmp_path, Keeps(ALIKE)), FIX)
    assert (found.candidate, found.why) == (FIX, None)


@pytest.mark.parametrize(
    ("budget_s", "raced"),
    [(100.0, 0), (140.0, 0), (160.0, 3), (210.0, 4), (1e4, 5)],
)
def test_the_time_that_is_left_bounds_it(tmp_path, budget_s, raced):
    """Of an arm of ten seconds, 20 % of the budget must hold three."""
    each = {1: 0.9, 2: 0.4, 4: 0.3, 8: 0.2, 16: 0.3}
    _, told, engine = settled(tmp_path, each, budget_s=budget_s)
    assert len(told) == len(engine.raced) == raced


@pytest.mark.parametrize(
    "edit",
    [
        msgspec.structs.replace(WORKERS, among=()),
        msgspec.structs.replace(WORKERS, among=(4,)),
        Edit(knob="evaluation.interval_factor", value=2, among=(2, 4)),
    ],
    ids=["none", "one", "by hand"],
)
def test_without_numbers_to_turn_nothing_runs(tmp_path, edit):
    fix = Candidate("x", "y", "none", "", (edit, KEEP), None, "")
    found, told, engine = settled(tmp_path, {}, fix)
    assert found is fix
    assert not told
    assert not engine.raced


def test_four_times_the_workers_must_bring_more_than_a_twentieth():
    assert choose_value({11: 11.2e-3, 22: 11.0e-3, 44: 10.8e-3}) == 11


def test_what_is_really_slower_is_not_kept_for_its_size():
    assert choose_value({2: 20e-3, 4: 12e-3, 8: 11.8e-3}) == 4


def test_limits_are_not_used_up():
    anything = resource.RLIM_INFINITY
    assert workers_within_limits(1024, anything) == 42
    assert workers_within_limits(anything, 64) == 8
    assert workers_within_limits(1024, 64) == 8
    assert workers_within_limits(4, anything) == 1
    assert workers_within_limits(anything, anything) is None
