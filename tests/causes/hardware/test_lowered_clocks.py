"""Clocks that are held down, and the normal reasons that look the same."""

import pytest

import cured_twins
from watched_run import add_telemetry
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

HOT, POWER, APPLICATION, IDLE = 0x20, 0x04, 0x02, 0x01
BASE = {
    "busy_ratio@gpu0": 0.95,
    "clock_sm_mhz@gpu0": 1200.0,
    "clock_sm_max_mhz@gpu0": 2000.0,
    "clock_reasons@gpu0": 0,
    "power_limit_w@gpu0": 700.0,
    "power_limit_default_w@gpu0": 700.0,
    "temperature_c@gpu0": 92.0,
}


def recorded(**changed):
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(10):
                job.op("aten::mm", kernels=[("ampere_bf16_s16816gemm_bf16_128x128_tn", us(800))])
    values = {**BASE, **{f"{name}@gpu0": value for name, value in changed.items()}}
    return add_telemetry(job.timeline(), values)


def judge(cause, **changed):
    return cured_twins.judge(cause, recorded(**changed))


def test_heat():
    proof = judge("thermal-throttle", clock_reasons=HOT)
    assert proof is not None
    assert 0.3 < proof.high <= 0.4  # 1200 of 2000 MHz
    assert proof.low == pytest.approx(proof.high / 4)
    assert judge("power-or-clock-cap", clock_reasons=HOT | APPLICATION) is None


@pytest.mark.parametrize("reasons", [0, POWER, APPLICATION, IDLE])
def test_other_reasons_are_no_heat(reasons):
    assert judge("thermal-throttle", clock_reasons=reasons) is None


def test_an_idle_gpu_lowers_its_clocks_by_design():
    assert judge("thermal-throttle", clock_reasons=HOT, busy_ratio=0.1) is None


def test_a_power_cap_counts_only_below_the_default_limit():
    assert judge("power-or-clock-cap", clock_reasons=POWER) is None
    proof = judge("power-or-clock-cap", clock_reasons=POWER, power_limit_w=400.0)
    assert proof is not None
    assert proof.predicted.low == 1.0


@pytest.mark.parametrize(("moving", "bound"), [(0.0, 1.0), (0.19, 0.8), (0.76, 0.25), (0.95, 0.25)])
def test_what_waits_for_memory_does_not_gain_from_clocks(moving, bound):
    """0.95 busy: 0.19 in memory is a fifth of the work; a quarter gains whatever was read."""
    proof = judge("thermal-throttle", clock_reasons=HOT, dram_active_ratio=moving)
    assert 1 - 1 / proof.predicted.speedup == pytest.approx(proof.high * bound, abs=0.01)


@pytest.mark.parametrize(
    ("limit", "clock", "then"), [(600.0, 1200.0, 1263.0), (200.0, 1500.0, 2000)]
)
def test_a_higher_limit_of_power_allows_its_cube_root_in_clocks(limit, clock, then):
    proof = judge(
        "power-or-clock-cap",
        clock_reasons=POWER,
        power_limit_w=limit,
        clock_sm_mhz=clock,
        dram_active_ratio=0.0,
    )
    work = proof.high / (1 - clock / 2000)
    assert 1 - 1 / proof.predicted.speedup == pytest.approx(work * (1 - clock / then), abs=0.005)


def test_application_clocks_and_full_clocks():
    assert judge("power-or-clock-cap", clock_reasons=APPLICATION) is not None
    assert judge("power-or-clock-cap", clock_reasons=APPLICATION, clock_sm_mhz=1995.0) is None


PAIRS = {
    "thermal-throttle": Pair(
        sick=lambda: recorded(clock_reasons=HOT), healthy=lambda: recorded(clock_reasons=POWER)
    ),
    "power-or-clock-cap": Pair(
        sick=lambda: recorded(clock_reasons=POWER, power_limit_w=400.0),
        healthy=lambda: recorded(clock_reasons=POWER),
    ),
}
