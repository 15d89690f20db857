from __future__ import annotations

import os

import pytest

from whyidle.engine.search import side_by_side
from whyidle.engine.search.side_by_side import TrialRoom
from whyidle.model.search import Report, SearchTrial

CORES = len(os.sched_getaffinity(0))


def trial(seconds: float, beside: int = 1) -> SearchTrial:
    reports = [Report(step=1, value=1.0, seconds=seconds)]
    return SearchTrial(
        number=0, values={}, ending="complete", reports=reports, seconds=seconds, beside=beside
    )


@pytest.fixture
def spend(monkeypatch: pytest.MonkeyPatch):
    """Sets the CPU time that all trials have used, which is the kernel's to say."""

    def set_cpu_s(seconds: float, others: float = 0.0) -> None:
        monkeypatch.setattr(side_by_side, "used_cpu_s", lambda: seconds)
        monkeypatch.setattr(side_by_side, "machine_cpu_s", lambda: seconds + others)

    set_cpu_s(0.0)
    monkeypatch.setattr(side_by_side, "largest_child_bytes", lambda: 1 << 20)
    return set_cpu_s


def test_trials_that_use_all_cores_run_one_at_a_time(spend):
    told: list[str] = []
    room = TrialRoom(None, told.append)
    spend(10.0 * CORES)
    room.note_end(trial(10.0))
    assert (room.count, room.threads) == (1, None)
    assert "one at a time (cores allow no more)" in told[0]


def test_trials_that_wait_run_side_by_side_if_that_is_faster(spend):
    for slower, count in ((1.2, 2), (2.5, 1)):
        told: list[str] = []
        spend(0.0)
        room = TrialRoom(None, told.append)
        spend(10.0 * 0.44 * CORES)
        room.note_end(trial(10.0))
        assert (room.count, room.threads) == (2, max(CORES // 2, 1))
        for _ in range(2):
            room.note_end(trial(10.0 * slower, beside=2))
        assert room.count == count
        assert len(told) == 2


def test_trials_leave_the_cores_of_other_programs_alone(spend):
    told: list[str] = []
    room = TrialRoom(None, told.append)
    spend(10.0 * 0.1 * CORES, others=10.0 * 0.85 * (os.cpu_count() or 1))
    room.note_end(trial(10.0))
    assert room.count == 1
    assert ", other programs " in told[0]


def test_what_the_user_says_holds(spend):
    room = TrialRoom(3, lambda _: None)
    room.note_end(trial(10.0))
    assert room.count == 3
