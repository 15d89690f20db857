"""What was read beside the steps, over the window of the steps."""

import numpy as np
import pytest

from whyidle.analysis.outside import Outside
from whyidle.model.telemetry import Series, Telemetry


def outside(values, low=0, high=10, facts=(), **settings):
    series = {
        name: Series(
            np.array([t for t, _ in rows], np.int64) * 10**9, np.array([v for _, v in rows], float)
        )
        for name, rows in values.items()
    }
    return Outside(Telemetry(series, dict(facts)), low * 10**9, high * 10**9, settings)


def test_gauges_of_the_window_only():
    found = outside({"x": [(0, 1.0), (4, 3.0), (5, 5.0), (11, 99.0)]}, 3, 10)
    assert found.mean("x") == 4.0
    assert found.most("x") == 5.0
    assert found.mean("y") is None


def test_a_window_between_two_reads_has_the_one_before():
    assert outside({"x": [(0, 1.0), (20, 2.0)]}, 5, 6).mean("x") == 1.0
    assert outside({"x": [(20, 2.0)]}, 5, 6).mean("x") is None


def test_counters_are_interpolated_and_rates_are_of_what_was_read():
    found = outside({"c": [(0, 0.0), (20, 40.0)], "short": [(8, 0.0), (30, 22.0)]}, 5, 10)
    assert found.grown("c") == pytest.approx(10.0)
    assert found.rate("c") == pytest.approx(2.0)
    assert found.rate("short") == pytest.approx(1.0)
    assert outside({"c": [(0, 1.0)]}).rate("c") is None
    assert outside({"c": [(0, 1.0), (1, 2.0)]}, 5, 6).rate("c") is None


def test_whose_gpu_it_is():
    two = {"busy_ratio@gpu0": [(1, 1.0)], "busy_ratio@gpu1": [(1, 1.0)]}
    assert outside(two).own_gpus == ()
    assert outside({"busy_ratio@gpu3": [(1, 1.0)]}).own_gpus == ("gpu3",)
    ranked = outside(two, facts={"cuda_ordinal@gpu1": "0"}, local_rank=0)
    assert ranked.own_gpus == ("gpu1",)
    held = {**two, "process_memory_bytes@gpu1.pid7": [(1, 5.0)]}
    assert outside(held, pid=7).own_gpus == ("gpu1",)
    assert outside(held, pid=7).pids("gpu1") == {7: 5.0}
    assert outside(held, pid=7).gpus == ("gpu0", "gpu1")
