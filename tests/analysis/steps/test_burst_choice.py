"""Shares of a burst as its steps would have had them without being recorded."""

from dataclasses import replace

import numpy as np
import pytest

from watched_run import add_facts
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.burst_choice import (
    SLOWED,
    WORKING,
    around_s,
    slowed_by,
    undo_recording_cost,
    with_run_context,
)
from whyidle.analysis.steps.step_detection import find_steps
from whyidle.model.buckets import REASONS
from whyidle.model.process_facts import BurstInRun
from whyidle.testing.builder import Builder, ms, us

SHARES = {"compute": 0.5, "copy": 0.1, "loader": 0.1, "launch": 0.2, "sync_refill": 0.1}


def test_the_device_s_seconds_stay_and_waiting_for_the_host_shrinks():
    found = undo_recording_cost(SHARES, 0.020, BurstInRun(before_s=0.016, after_s=0.016))
    assert sum(found.values()) == pytest.approx(1.0)
    for reason in ("compute", "copy", "loader"):
        assert found[reason] * 0.016 == pytest.approx(SHARES[reason] * 0.020)
    assert found["launch"] * 0.016 == pytest.approx(0.004 - 0.004 * 2 / 3)
    assert found["launch"] == pytest.approx(2 * found["sync_refill"])


def test_a_host_that_runs_ahead_of_its_device_lets_it_wait_for_nothing():
    found = undo_recording_cost(SHARES, 0.020, BurstInRun(before_s=0.005, after_s=0.005))
    assert found["launch"] == found["sync_refill"] == 0.0
    assert found["compute"] == pytest.approx(0.5 / 0.7)
    assert found["loader"] == pytest.approx(0.1 / 0.7)


@pytest.mark.parametrize("told", [{}, {"before_s": None}, {"before_s": 0.0}, {"before_s": 0.03}])
def test_without_shorter_steps_beside_it_shares_stand(told):
    assert undo_recording_cost(SHARES, 0.020, BurstInRun(**told)) == SHARES


def test_over_the_run_pauses_take_what_they_take_there_and_the_rest_was_not_seen():
    run = {"loader": 0.2, "checkpoint": 0.1, "logging": 0.0, "gc": 0.0}
    found = undo_recording_cost(SHARES, 0.020, BurstInRun(run_s=0.030, run=run))
    assert sum(found.values()) == pytest.approx(1.0)
    for reason in ("compute", "copy", "launch", "sync_refill"):
        assert found[reason] * 0.030 == pytest.approx(SHARES[reason] * 0.020)
    assert found["loader"] == pytest.approx(0.2)
    assert found["checkpoint"] == pytest.approx(0.1)
    assert found["unseen"] == pytest.approx(0.1)


def test_a_burst_that_met_a_pause_by_chance_makes_no_more_of_it():
    run = {"loader": 0.0, "checkpoint": 0.01, "logging": 0.0, "gc": 0.0}
    met = {"compute": 0.4, "checkpoint": 0.6}
    found = undo_recording_cost(met, 0.050, BurstInRun(run_s=0.0202, run=run))
    assert found["checkpoint"] == pytest.approx(0.01, abs=0.001)
    assert found["compute"] == pytest.approx(0.99, abs=0.001)
    assert found["unseen"] == 0.0


def test_a_device_that_waits_for_no_host_has_nothing_to_shrink():
    busy = {"compute": 0.7, "loader": 0.3}
    assert undo_recording_cost(busy, 0.020, BurstInRun(before_s=0.010)) == busy


def test_every_reason_is_either_slowed_or_not():
    assert set(SLOWED) < set(REASONS)
    assert not set(SLOWED) & set(WORKING)


def test_steps_around_are_those_that_were_timed():
    assert around_s(BurstInRun(before_s=0.010, after_s=0.014)) == pytest.approx(0.012)
    assert around_s(BurstInRun(before_s=0.010)) == pytest.approx(0.010)
    assert around_s(BurstInRun()) is None


@pytest.mark.parametrize(("during", "share"), [(0.016, 0.25), (0.012, 0.0), (0.010, 0.0)])
def test_what_recording_took_is_what_steps_were_longer_by(during, share):
    told = BurstInRun(before_s=0.010, after_s=0.014, during_s=during)
    assert slowed_by(told) == pytest.approx(share)


def test_usual_are_the_undisturbed_steps_on_both_sides():
    live = launched_one_by_one(us(500)).timeline()
    steps = find_steps(live)
    length = steps.end - steps.start
    told = {"begin": live.base_ns + int(steps.end[2]), "end": live.base_ns + int(steps.start[4])}
    burst = add_facts(live, {"burst": {**told, "before_s": 9.0, "after_s": 9.0}})
    steady = steps.steady & (np.arange(len(steps)) != 3)
    found = with_run_context(burst, live, replace(steps, steady=steady)).burst
    assert around_s(found) == pytest.approx(np.median(length[steady]) / 1e9)
    assert around_s(found) < 0.1


def test_where_no_step_is_beside_it_what_the_burst_told_stands():
    live = launched_one_by_one(us(500)).timeline()
    steps = find_steps(live)
    burst = add_facts(live, {"burst": {"begin": 0, "end": 1 << 62, "before_s": 0.5}})
    assert around_s(with_run_context(burst, live, steps).burst) == 0.5
    assert with_run_context(live, live, steps).burst is None


def launched_one_by_one(host: int) -> Builder:
    """Six steps of a device that does everything faster than the host tells it to."""
    job = Builder()
    for _ in range(6):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(400))], host=host)
    return job


def test_a_burst_has_the_shares_of_the_same_job_unrecorded():
    plain, slow = (launched_one_by_one(host).timeline() for host in (us(500), us(900)))
    steps = Facts(plain)
    told = {"before_s": steps.step_s, "after_s": steps.step_s, "during_s": Facts(slow).step_s}
    burst = Facts(add_facts(slow, {"burst": told}))
    assert Facts(slow).attribution["compute"] < steps.attribution["compute"] - 0.3
    assert burst.attribution == pytest.approx(steps.attribution, abs=0.02)
    assert burst.profiler_share == pytest.approx(1 - told["before_s"] / told["during_s"], abs=0.02)
    assert Facts(plain).step_s > ms(10) / 1e9
