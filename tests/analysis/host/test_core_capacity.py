"""What cores leave room for."""

from dataclasses import replace

import numpy as np
import pytest

from watched_run import add_telemetry
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import BUSY_CORE, SHARED, find_capacity
from whyidle.analysis.input.worker_capacity import WAITING
from whyidle.analysis.steps.forecast import WORKERS, hidden_loading, predict_risk
from whyidle.model.loader_tables import BATCH, Loading
from whyidle.model.timeline import DeviceInfo
from whyidle.testing.builder import Builder, ms


def facts(cores, threads, cpu_share, kind="cpu", outside=None):
    built = Builder()
    for _ in range(4):
        with built.step():
            built.loader(ms(30))
            built.op("aten::addmm")
    batches = np.zeros(4, BATCH)
    batches["end"], batches["cpu"], batches["worker"] = ms(30), cpu_share * ms(30), -1
    loading = Loading(cores=cores, threads=threads, batches=batches)
    made = replace(built.timeline(), loading=loading, info=DeviceInfo(kind=kind))
    return Facts(add_telemetry(made, outside) if outside else made)


def test_untold_cores_limit_nothing():
    assert find_capacity(facts(None, 2, 1.0), 0.6, 0.6).floor == (0.0, 0.0)
    assert find_capacity(facts(None, 2, 1.0), 0.6, 0.6).workers == WORKERS


def test_all_the_work_must_fit_on_the_cores():
    """0.6 of loading and 0.4 of training on two cores: half of it all, or more where they are two
    threads of one core."""
    found = find_capacity(facts(2.0, 1, 1.0), 0.6, 0.6)
    assert found.floor == pytest.approx((0.5, 1.0 / (2 * SHARED)))
    assert found.workers == (2, 2)


def test_a_loader_that_waits_for_storage_may_have_more_workers_than_cores():
    found = find_capacity(facts(2.0, 1, 0.1), 0.6, 0.6)
    assert found.workers == (2, WAITING)
    assert found.floor == pytest.approx((0.23, 0.46 / (2 * SHARED)))


def test_a_prediction_never_beats_the_cores():
    low, expected, high = hidden_loading(0.6, 0.6, (0.0, 0.0), 0.0, floor=(0.5, 0.7))
    assert high == pytest.approx(0.5)
    assert low == pytest.approx(1 - 0.7 * 1.04)
    assert low <= expected <= high


def test_operators_on_all_cores_may_spin_as_long_as_workers_load():
    """Two threads of operators and two workers on two cores: at worst workers have half of both
    cores, at what these are worth together, and training comes no further meanwhile. Loading that
    waits for something else leaves the cores alone."""
    assert find_capacity(facts(2.0, 2, 1.0), 0.0, 0.8).floor[1] == pytest.approx(0.2)
    assert find_capacity(facts(2.0, 2, 1.0), 0.8, 0.8).floor[1] == pytest.approx(0.8 / SHARED + 0.2)
    assert find_capacity(facts(2.0, 2, 0.0), 0.8, 0.8).floor[1] == pytest.approx(0.2)


def test_operators_that_leave_cores_for_the_workers_do_not_spin_for_them():
    roomy = find_capacity(facts(4.0, 2, 1.0), 0.8, 0.8).floor[1]
    assert roomy < 1.0 < find_capacity(facts(3.0, 2, 1.0), 0.8, 0.8).floor[1]
    assert find_capacity(facts(2.0, 2, 1.0, kind="cuda"), 0.8, 0.8).floor[1] < 1.0


def test_operators_on_all_cores_are_expected_to_leave_none_of_them():
    """With a thread for each core, hiding the loading only shares it out; with one thread of two
    cores, a core is free for it."""
    full, alone = facts(2.0, 2, 1.0), facts(2.0, 1, 1.0)
    computing = full.bucket_share("compute")
    rest = 1.0 - 0.2
    assert find_capacity(alone, 0.2, 0.2).usual < find_capacity(full, 0.2, 0.2).usual
    cores = 2 * BUSY_CORE[1]
    spread = (0.2 + rest + min(computing, rest) * (cores - 1.0)) / cores
    assert find_capacity(full, 0.2, 0.2).usual == pytest.approx(spread)


def test_expected_is_the_middle_of_what_the_cores_allow():
    """They are the only bound here, and the careful end is not counted twice."""
    low, expected, high = hidden_loading(0.8, 0.8, (0.0, 0.0), 0.0, floor=(0.5, 0.8))
    assert 1.0 - expected == pytest.approx((0.5 + 0.8) / 2)
    assert low < expected < high


def test_at_worst_other_programs_keep_the_cores_that_they_use():
    """Four cores, of which the job uses one and others the rest."""
    busy = {
        "machine_cpu_idle_s": (0.0, 5.0),
        "job_cpu_user_s": (1.0, 3.0),
        "job_cpu_system_s": (0.0, 1.0),
    }
    found = find_capacity(facts(4.0, 1, 1.0, outside=busy), 0.6, 0.6)
    assert found.floor == pytest.approx((0.25, 1.0))
    free = find_capacity(facts(4.0, 1, 1.0), 0.6, 0.6)
    assert found.usual == pytest.approx(free.usual + (1.0 - free.floor[1]) / 2)


def test_handing_over_is_work_for_the_cores_and_may_cost_more_than_it_hides():
    space = find_capacity(facts(2.0, 1, 1.0), 0.3, 0.3, (0.4, 0.8))
    assert space.floor[1] == pytest.approx((0.3 + 0.7 + 0.8) / (2 * SHARED))
    assert space.usual == pytest.approx((0.3 + 0.7 + 0.4) / (2 * BUSY_CORE[1]))
    low, expected, high = hidden_loading(
        0.3, 0.3, (0.2, 0.4), 0.0, floor=space.floor, usual=space.usual, given=2
    )
    assert low < 0.0 < expected < high
    predicted = predict_risk(low, high, "so", expected)
    assert predicted.low == pytest.approx(1 / (1 - low))
    assert predicted.low < 1.0 < predicted.speedup < predicted.high


def test_that_the_step_becomes_longer_is_never_promised():
    predicted = predict_risk(-0.5, 0.2, "so", -0.1)
    assert (predicted.low, predicted.speedup) == (pytest.approx(1 / 1.5), 1.0)
