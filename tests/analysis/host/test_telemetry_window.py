"""What was read beside the steps, over the window of the steps."""

import numpy as np
import pytest

from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.model.process_facts import ProcessFacts


def outside(values, low=0, high=10, facts=(), **settings):
    series = {
        name: Series(
            np.array([t for t, _ in rows], np.int64) * 10**9, np.array([v for _, v in rows], float)
        )
        for name, rows in values.items()
    }
    return TelemetryWindow(
        Telemetry(series, dict(facts)), low * 10**9, high * 10**9, ProcessFacts(**settings)
    )


def test_gauges_of_the_window_only():
    found = outside({"x": [(0, 1.0), (4, 3.0), (5, 5.0), (11, 99.0)]}, 3, 10)
    assert found.mean_value("x") == 4.0
    assert found.highest_value("x") == 5.0
    assert found.mean_value("y") is None


def test_a_window_between_two_reads_has_the_one_before():
    assert outside({"x": [(0, 1.0), (20, 2.0)]}, 5, 6).mean_value("x") == 1.0
    assert outside({"x": [(20, 2.0)]}, 5, 6).mean_value("x") is None


def test_counters_are_interpolated_and_rates_are_of_what_was_read():
    found = outside({"c": [(0, 0.0), (20, 40.0)], "short": [(8, 0.0), (30, 22.0)]}, 5, 10)
    assert found.counter_growth("c") == pytest.approx(10.0)
    assert found.counter_rate("c") == pytest.approx(2.0)
    assert found.counter_rate("short") == pytest.approx(1.0)
    assert outside({"c": [(0, 1.0)]}).counter_rate("c") is None
    assert outside({"c": [(0, 1.0), (1, 2.0)]}, 5, 6).counter_rate("c") is None


def test_a_counter_that_began_anew_has_no_rate():
    """Bytes over PCIe are counted up to some number, and then from 0 again."""
    assert outside({"c": [(0, 2.0**32 - 5), (20, 40.0)]}, 5, 10).counter_rate("c") is None


def test_what_a_link_is_while_its_gpu_is_busy():
    busy = {"busy_ratio@gpu0": [(0, 0.0), (4, 0.9), (8, 0.0), (12, 0.9)]}
    link = {"pcie_generation@gpu0": [(0, 1.0), (4, 3.0), (8, 1.0), (12, 4.0)]}

    def seen(values, low, high):
        return outside(values, low, high).under_load("pcie_generation", "gpu0")

    assert seen({**busy, **link}, 0, 10) == 3.0
    assert seen({**busy, **link}, 1, 3) is None  # it was read before the job began, and is idle
    assert seen({**busy, **link}, 5, 6) == 3.0
    assert seen({**busy, **link}, 7, 9) is None
    assert seen(link, 1, 3) is None
    assert seen(link, 1, 5) == 3.0
    assert seen(busy, 0, 10) is None


def test_whose_gpu_it_is():
    two = {"busy_ratio@gpu0": [(1, 1.0)], "busy_ratio@gpu1": [(1, 1.0)]}
    assert outside(two).own_gpus == ()
    assert outside({"busy_ratio@gpu3": [(1, 1.0)]}).own_gpus == ("gpu3",)
    held = {**two, "process_memory_bytes@gpu1.pid7": [(1, 5.0)]}
    assert outside(held, pid=7).own_gpus == ("gpu1",)
    assert outside(held, pid=7).memory_by_process("gpu1") == {7: 5.0}
    assert outside(held, pid=7).gpus == ("gpu0", "gpu1")


def test_the_gpu_that_most_memory_is_on_comes_first():
    """Many a script leaves a small context on GPU 0 beside its own."""
    held = {"process_memory_bytes@gpu0.pid7": [(1, 5e8)]}
    held |= {"process_memory_bytes@gpu1.pid7": [(1, 4e10)]}
    assert outside(held, pid=7).own_gpus == ("gpu1", "gpu0")


def test_a_process_of_which_no_memory_is_counted_holds_a_gpu_all_the_same():
    held = {f"process_memory_bytes@gpu0.pid{pid}": [(1, 0.0)] for pid in (7, 8)}
    assert outside(held, pid=7).memory_by_process("gpu0") == {7: 0.0, 8: 0.0}
    assert outside(held, pid=7).exclusive_gpu is None


FOUR = {f"busy_ratio@gpu{number}": [(1, 1.0)] for number in range(4)}
UUIDS = {f"uuid@gpu{number}": f"GPU-{number}{number}-00" for number in range(4)}


@pytest.mark.parametrize(
    ("index", "environment", "gpu"),
    [
        (2, {}, "gpu2"),
        (None, {"LOCAL_RANK": "3"}, "gpu3"),
        (1, {"LOCAL_RANK": "3"}, "gpu1"),
        (0, {"CUDA_VISIBLE_DEVICES": "3,1"}, "gpu3"),
        (1, {"CUDA_VISIBLE_DEVICES": "3, 1"}, "gpu1"),
        (None, {"CUDA_VISIBLE_DEVICES": "2", "LOCAL_RANK": "3"}, "gpu2"),
        (1, {"CUDA_VISIBLE_DEVICES": "GPU-00,GPU-22-00"}, "gpu2"),
        (4, {"CUDA_VISIBLE_DEVICES": "3,1"}, None),
        (0, {"CUDA_VISIBLE_DEVICES": "GPU-99"}, None),
        (0, {"CUDA_VISIBLE_DEVICES": ""}, None),
        (None, {}, None),
    ],
)
def test_in_a_container_a_process_is_told_by_its_own_number_of_its_gpu(index, environment, gpu):
    """Its id there is none that the driver knows."""
    facts = {**UUIDS, **{f"cuda_ordinal@gpu{number}": str(number) for number in range(4)}}
    held = {**FOUR, "process_memory_bytes@gpu0.pid4711": [(1, 5.0)]}
    told = {"pid": 7, "device": "cuda", "device_index": index, "environment": environment}
    assert outside(held, facts=facts, **told).own_gpus == ((gpu,) if gpu else ())
    assert outside(held, facts=facts, **{**told, "device": "cpu"}).own_gpus == ()


def test_a_slice_is_told_by_its_uuid_or_its_card():
    values, facts = {"clock_sm_mhz@gpu1.mig2": [(1, 1.0)], **FOUR}, {"uuid@gpu1.mig2": "MIG-5-6"}
    values.pop("busy_ratio@gpu1")
    for listed in ("MIG-5", "1"):
        told = {"device_index": 0, "environment": {"CUDA_VISIBLE_DEVICES": listed}}
        assert outside(values, facts=facts, **told).own_gpus == ("gpu1.mig2",)


def test_numbers_are_not_trusted_where_cards_may_be_numbered_by_speed():
    told = {"device_index": 0, "environment": {"CUDA_VISIBLE_DEVICES": "1"}}
    assert outside(FOUR, facts={"cuda_order_doubt": "mixed"}, **told).own_gpus == ()
