"""Processes that were found stopped at reads of their state."""

from dataclasses import replace

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.host.process_stops import (
    CONFIRMED,
    NONE,
    STOPPED,
    UnexplainedSleep,
    confirm_stops,
    find_stopped_rank,
    find_stops,
)
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

S = 1_000_000_000
RUNS, SLEEPS = 1.0, 2.0


def telemetry(**states):
    """``pid7=[...]``: its state at second 0, 1, 2 and on."""
    series = {
        f"state@{pid}": Series(np.arange(len(values)) * S, np.array(values, float))
        for pid, values in states.items()
    }
    return Telemetry(series, {})


def outside(**states):
    return TelemetryWindow(telemetry(**states), 0, 100 * S, {})


def test_share_of_the_reads_with_the_error_of_so_many():
    found = find_stops(outside(pid7=[STOPPED, RUNS] * 8), [7])
    assert (found.share, found.reads) == (0.5, 16)
    assert (found.low, found.high) == pytest.approx((0.25, 0.75))


def test_mean_over_processes():
    seen = outside(pid7=[STOPPED, STOPPED, STOPPED, RUNS] * 2, pid8=[SLEEPS] * 8)
    assert find_stops(seen, [7, 8]).share == 0.375
    assert find_stops(seen, [7]).high == 1.0
    assert find_stops(seen, [8]) == NONE


@pytest.mark.parametrize(
    "seen",
    [
        outside(pid7=[STOPPED, RUNS, STOPPED, *[RUNS] * 20]),
        outside(pid7=[RUNS, *[STOPPED] * 20]),
        outside(pid8=[STOPPED] * 9),
        outside(),
        None,
    ],
    ids=["twice only", "once, for long", "another process", "no reads", "nothing read"],
)
def test_not_found_stopped(seen):
    assert find_stops(seen, [7]) == NONE


def rank(number, states):
    guest = RecordedJob(pid=10 + number, rank=number, world_size=2)
    for _ in range(20):
        guest.backward("/job/train.py(3): <module>", ms(400))
        guest.step("/job/train.py(3): <module>", ms(100))
    made = guest.timeline()
    read = telemetry(**{f"pid{10 + number}": [RUNS, *states]})
    return Facts(replace(made, rank=number, telemetry=read, base_ns=S))


def test_the_rank_that_is_stopped_longer_than_the_others():
    found = find_stopped_rank(
        [rank(0, [STOPPED, RUNS, RUNS, RUNS] * 3), rank(1, [STOPPED, RUNS, *[STOPPED] * 10])]
    )
    assert found.index == 1
    assert found.stops.share == pytest.approx(1.0, abs=0.1)
    assert 0.6 < found.beyond < 0.8


def test_ranks_that_are_stopped_alike_hold_up_nobody():
    assert (
        find_stopped_rank(
            [rank(0, [STOPPED, RUNS, *[STOPPED] * 10]), rank(1, [STOPPED, RUNS, *[STOPPED] * 10])]
        )
        is None
    )
    assert find_stopped_rank([rank(0, [RUNS] * 12), rank(1, [SLEEPS] * 12)]) is None


def test_a_rank_of_which_nothing_was_read_may_be_stopped_as_well():
    seen = rank(0, [STOPPED, RUNS, *[STOPPED] * 10])
    unread = replace(seen.timeline, rank=1, telemetry=None)
    assert find_stopped_rank([seen, Facts(unread)]) is None


TWICE = find_stops(outside(pid7=[STOPPED, RUNS, STOPPED, *[RUNS] * 13]), [7], CONFIRMED)
QUIET, STILL = UnexplainedSleep(0.0, 0.01, 0.02), UnexplainedSleep(0.2, 0.24, 0.28)


def test_two_reads_do_where_the_thread_stood_still_as_often():
    found = confirm_stops(TWICE, STILL, [QUIET])
    assert found.share == pytest.approx(0.23)
    assert found.low <= TWICE.share <= found.share <= found.high < TWICE.high
    assert found.found == TWICE.share


@pytest.mark.parametrize(
    ("own", "others"),
    [
        (QUIET, [QUIET]),
        (STILL, [STILL]),
        (UnexplainedSleep(0.7, 0.8, 0.9), [QUIET]),
        (STILL, [None]),
    ],
    ids=["awake", "like the others", "for longer than it was stopped", "nothing known"],
)
def test_standing_still_that_does_not_confirm_reads(own, others):
    assert confirm_stops(TWICE, own, others) is None
    assert confirm_stops(NONE, own, others) is None
