"""A plan survives being written and read, and what is wrong with one is told by its place."""

import math
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import InputError
from whyidle.model.diagnosis import Consent
from whyidle.model.knobs import KNOBS, Knob
from whyidle.model.plan import FixPlan, PlannedFix, Speedup
from whyidle.store.plan_file import parse_plan, read_plan, text_of

PLAN = FixPlan(
    command=["python", "train.py", "--photos", "my data"],
    made="2026-11-21T15:30:00+00:00",
    whyidle="0.1.0",
    fix=[
        PlannedFix(
            fix="loader-workers",
            consent="rounding",
            summary="DataLoader(..., num_workers=4)",
            predicted=Speedup(times=2.2, low=1.9, high=2.6),
            measured=Speedup(times=2.31, low=2.25, high=2.38),
            edits={"loader.workers": 4, "loader.persistent_workers": True},
            was={"loader.workers": 0},
        ),
        PlannedFix(fix="tf32", consent="numerics", edits={"matmul.precision": "high"}),
    ],
)
TEXT = text_of(PLAN)


def test_it_says_how_a_fix_and_all_of_them_are_taken_back():
    head, _, _ = TEXT.partition("schema = ")
    assert "Set `enabled` to false to leave a fix out" in head
    assert "take effect in the running program only" in head


def kept(knob: Knob) -> st.SearchStrategy:
    if knob.among:
        return st.sampled_from(knob.among)
    most = min(knob.most, 2**40)
    return {
        bool: st.booleans(),
        int: st.integers(math.ceil(knob.least), int(most)),
        float: st.floats(knob.least, most),
        str: st.text(),
    }[knob.kind]


SPEEDUPS = st.none() | st.builds(
    Speedup, times=st.floats(0.1, 9), low=st.floats(0.1, 9), high=st.floats(0.1, 1e20)
)
EDITS = st.one_of(
    [st.fixed_dictionaries({name: kept(knob)}) for name, knob in KNOBS.items()]
) | st.dictionaries(st.text(min_size=1).map("env.{}".format), st.text(), max_size=2)
FIXES = st.builds(
    PlannedFix,
    fix=st.text(),
    consent=st.sampled_from(["none", "rounding", "numerics", "convergence"]),
    enabled=st.booleans(),
    summary=st.text(),
    predicted=SPEEDUPS,
    measured=SPEEDUPS,
    edits=EDITS,
    was=EDITS,
)
PLANS = st.builds(
    FixPlan, command=st.lists(st.text()), made=st.text(), whyidle=st.text(),
    fix=st.lists(FIXES, max_size=1),
)  # fmt: skip


@given(PLANS)
def test_any_plan_comes_back_as_it_was(plan: FixPlan):
    assert parse_plan(text_of(plan), "plan.toml") == plan


def test_a_file_comes_back_as_it_was(tmp_path: Path):
    (tmp_path / "plan.toml").write_text(text_of(PLAN))
    assert read_plan(tmp_path / "plan.toml") == PLAN


def test_comments_say_what_each_fix_does_and_gains():
    assert "# 1. DataLoader(..., num_workers=4)" in TEXT
    assert "measured 2.31 times as fast (2.25 to 2.38), predicted 2.20" in TEXT
    assert "# 2. tf32\n#    neither predicted nor measured\n" in TEXT
    assert "#     whyidle run --plan plan.toml python train.py --photos 'my data'" in TEXT


def test_a_comment_tells_a_gain_that_varies_much_by_its_low_end():
    gain = Speedup(times=37.0, low=5.6, high=245.0)
    fix = PlannedFix(fix="x", consent="none", measured=gain, edits={})
    plan = FixPlan(command=["python"], made="", whyidle="", fix=[fix])
    assert "#    measured at least 5.60 times as fast\n" in text_of(plan)


def test_a_comment_stays_a_comment():
    fix = PlannedFix(fix="x", consent="none", summary="a\nmade = 1\x00", edits={})
    plan = FixPlan(command=["a\nb"], made="", whyidle="", fix=[fix])
    assert parse_plan(text_of(plan), "plan.toml") == plan


def test_a_plan_without_fixes_says_so():
    assert "# No fix was kept." in text_of(FixPlan(command=[], made="", whyidle=""))


def test_settings_are_those_of_enabled_fixes():
    off = TEXT.replace("enabled = true", "enabled = false", 1)
    assert parse_plan(off, "plan.toml").settings == {"matmul.precision": "high"}
    assert PLAN.settings["loader.workers"] == 4


def test_ways_to_write_the_same_by_hand():
    quoted = TEXT.replace("loader.workers = 4", '"loader.workers" = 4')
    assert parse_plan(quoted, "plan.toml") == PLAN
    nested = TEXT.replace("loader.workers = 4\nloader.persistent_workers = true",
                          "loader = { workers = 4, persistent_workers = true }")  # fmt: skip
    assert parse_plan(nested, "plan.toml") == PLAN
    assert parse_plan(TEXT.replace("enabled = true\n", ""), "plan.toml") == PLAN
    assert parse_plan(TEXT.replace("\n", "\r\n"), "plan.toml") == PLAN
    assert parse_plan(TEXT.replace("times = 2.2,", "times = 2,"), "plan.toml").fix[0].predicted


SAME_KNOB = '\n[[fix]]\nfix = "a"\nconsent = "none"\nedits.loader.workers = 3\n'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("enabled = true", "enabled = 1", "Expected `bool`, got `int` - at `fix 1.enabled`"),
        ("fix = ", "fixx = ", "unknown field `fixx` - at `fix 1`"),
        ('"rounding"', '"all"', 'fix 1 cannot be applied. Its `consent` is "all", which is no'),
        ('"numerics"', '"much"', 'fix 2 cannot be applied. Its `consent` is "much", which is no'),
        ('"rounding"', "1", "Expected `str`, got `int` - at `fix 1.consent`"),
        ('consent = "rounding"\n', "", "The required field `consent` is missing - at `fix 1`."),
        ("plan/1", "plan/2", "Its schema is whyidle/plan/2; this version reads whyidle/plan/1"),
        ('"whyidle/plan/1"', "1", "Its `schema` is 1"),
        ("schema = ", "# schema = ", "It has no `schema`"),
        (
            "workers = 4",
            "workerz = 4",
            "There is no setting 'loader.workerz'. Did you mean 'loader.workers'",
        ),
        ("workers = 4", 'workers = "4"', "'loader.workers' takes a whole number, not '4'"),
        ("workers = 4", "workers = -4", "'loader.workers' cannot be -4"),
        ("workers = 4", "workers = [4]", "at `fix 1.edits"),
        ("workers = 4", "workers = = 4", "line 25"),
        ("workers = 4", "workers = 4\nloader.workers = 5", "line 26"),
        ("low = 1.9", 'low = "1.9"', "Expected `float`, got `str` - at `fix 1.predicted.low`"),
        ("\n[[fix]]\n", "\n[[no]]\n", "Cannot overwrite a value"),
        ("[fix.edits]", "[fix.edit]", "unknown field `edit` - at `fix 1`"),
        ("made = ", "mad = ", "unknown field `mad`"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old: str, new: str, said: str):
    assert old in TEXT
    with pytest.raises(InputError, match=r"^mine\.toml") as caught:
        parse_plan(TEXT.replace(old, new, 1), "mine.toml")
    assert said in str(caught.value)
    assert caught.value.hint


def test_the_consents_that_there_are_are_named():
    with pytest.raises(InputError) as caught:
        parse_plan(TEXT.replace('"rounding"', '"whatever"'), "mine.toml")
    for consent in get_args(Consent):
        assert f'"{consent}" (' in caught.value.hint


def test_two_fixes_cannot_set_a_knob_differently():
    with pytest.raises(
        InputError, match=r"It sets 'loader.workers' to 3, and fix 1 sets it to 4\."
    ):
        parse_plan(TEXT + SAME_KNOB, "mine.toml")


def test_two_may_set_a_knob_where_one_is_off():
    text = TEXT.replace("enabled = true", "enabled = false", 1) + SAME_KNOB
    assert parse_plan(text, "plan.toml").settings["loader.workers"] == 3


def test_a_folder_is_told_from_a_plan_and_the_plan_in_it_is_named(tmp_path):
    with pytest.raises(InputError, match="It is a folder") as caught:
        read_plan(tmp_path)
    assert "whyidle fix" in caught.value.hint
    (tmp_path / "plan.toml").write_text("")
    with pytest.raises(InputError) as caught:
        read_plan(tmp_path)
    assert caught.value.hint == f"--plan {tmp_path / 'plan.toml'}"


def test_a_file_that_cannot_be_used(tmp_path: Path):
    with pytest.raises(InputError, match="Cannot read the plan"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=re.escape("not UTF-8 text")):
        read_plan(tmp_path / "bytes.toml")
