"""The history of a command."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from imagined_jobs import healthy
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.documents.run_history import RunHistory
from whyidle.runs.run_history import StoredRun, build_history, matches_command

COMMAND = ["python", "/job/train.py", "--lr", "1"]
DIAGNOSIS = diagnose_job([healthy().timeline()])


def stored(number: int, seconds: float | None, **device: object) -> StoredRun:
    told = msgspec.structs.replace(
        DIAGNOSIS,
        run=msgspec.structs.replace(DIAGNOSIS.run, command=COMMAND),
        steps=msgspec.structs.replace(DIAGNOSIS.steps, mean_s=seconds),
        device=msgspec.structs.replace(DIAGNOSIS.device, **device),
    )
    return StoredRun(f"run{number}", f"2026-01-{number + 1:02}T00:00:00+00:00", told)


def history_of(seconds: Sequence[float | None]) -> RunHistory:
    return build_history([stored(n, s) for n, s in enumerate(seconds)], ["train.py"])


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["train.py"], True),
        (["train.py", "--lr", "1"], True),
        (["python", "train.py"], True),
        (COMMAND, True),
        (["train.py", "1"], False),
        (["train.py", "--lr", "10"], False),
        (["rain.py"], False),
        ([*COMMAND, "more"], False),
    ],
)
def test_a_command_is_known_by_its_words(words: list[str], found: bool):
    assert matches_command(COMMAND, words) is found


def test_the_run_at_which_it_became_slower_is_named():
    (change,) = history_of([0.100, 0.102, 0.099, 0.101, 0.130, 0.131, 0.129]).changes
    assert (change.run, change.kind, change.confirmed, change.earlier) == (
        "run4",
        "slower",
        True,
        4,
    )
    assert change.expected.low < 0.1 < change.expected.high < 0.130
    assert change.after_s == 0.130


def test_the_spread_of_earlier_runs_decides():
    assert not history_of([0.100, 0.140, 0.080, 0.120, 0.130, 0.131]).changes
    assert history_of([0.100, 0.101, 0.100, 0.100, 0.130, 0.131]).changes


def test_a_difference_below_five_percent_is_no_change():
    assert not history_of([0.1, 0.1, 0.1, 0.104, 0.104]).changes


def test_one_slow_run_between_others_is_chance():
    history = history_of([0.100, 0.101, 0.099, 0.200, 0.100, 0.101])
    assert not history.changes
    assert [row.kind for row in history.rows] == [None, None, None, "slower", None, None]


def test_a_slow_last_run_is_not_confirmed():
    (change,) = history_of([0.100, 0.101, 0.099, 0.200]).changes
    assert not change.confirmed


def test_a_faster_run_is_a_change_from_which_the_next_is_told():
    seconds = [0.100, 0.101, 0.099, 0.050, 0.051, 0.050, 0.100, 0.101]
    assert [(c.run, c.kind) for c in history_of(seconds).changes] == [
        ("run3", "faster"),
        ("run6", "slower"),
    ]


def test_too_few_runs_are_said():
    history = history_of([0.1, 0.2, None])
    assert not history.changes
    assert history.rows[2].step_s is None
    assert any("3 earlier runs" in note for note in history.notes)
    assert any("1 run" in note for note in history.notes)


def test_other_devices_are_not_compared():
    runs = [stored(n, 0.1) for n in range(4)]
    runs += [stored(n + 4, 0.3, name="another GPU") for n in range(2)]
    history = build_history(runs, ["train.py"])
    assert not history.changes
    assert any("not compared" in note for note in history.notes)
