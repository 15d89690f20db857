"""Every suspicion: fires on its sick job, is silent on a healthy one, and never guesses."""

from __future__ import annotations

import msgspec
import pytest

from whyidle import catalog
from whyidle.model.live.suspicion import JobView, suspicion

GIB = 1 << 30
HEALTHY = JobView(
    window_s=60.0,
    age_s=7200.0,
    gpu_busy=0.96,
    gpu_busy_max=1.0,
    gpu_memory_bytes=60 * GIB,
    power_ratio=0.85,
    bus_bytes_per_s=2e9,
    held_by_heat=0.0,
    held_by_power=0.3,
    hardware_slowdown=False,
    power_limit_ratio=1.0,
    cores_used=4.2,
    cores_allowed=16.0,
    busiest_thread=0.95,
    queued=0.005,
    threads_ready=4.0,
    blocked=0.02,
    io_wait=0.01,
    throttled=0.0,
    pressure_io=0.02,
    faults_per_s=1.0,
    swap_bytes=0,
    workers=8,
    workers_busy=2,
    workers_idle=3,
    waits_for="a message",
    waits_share=0.3,
    since_step_s=0.4,
)
PAIRS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "cpu-starved": (
        {"gpu_busy": 0.4, "cores_used": 1.98, "cores_allowed": 2.0, "threads_ready": 6.0},
        {"gpu_busy": 0.4, "cores_used": 1.98, "cores_allowed": 2.0, "threads_ready": 2.0},
    ),
    "idle-held": (
        {"gpu_busy": 0.0, "gpu_busy_max": 0.0, "cores_used": 0.01, "since_step_s": None},
        {"gpu_busy": 0.0, "gpu_busy_max": 0.0, "cores_used": 0.01, "age_s": 3.0},
    ),
    "main-process-loading": (
        {"gpu_busy": 0.2, "cores_used": 1.2, "busiest_thread": 0.99},
        {"gpu_busy": 0.2, "cores_used": 6.0, "busiest_thread": 0.99},
    ),
    "no-progress": ({"since_step_s": 900.0}, {"since_step_s": 100.0}),
    "spinning-collective": (
        {"gpu_busy": 1.0, "power_ratio": 0.2, "bus_bytes_per_s": 1e5, "since_step_s": 300.0},
        {"gpu_busy": 1.0, "power_ratio": 0.2, "bus_bytes_per_s": 5e9, "since_step_s": None},
    ),
    "storage-blocked": (
        {"gpu_busy": 0.3, "blocked": 0.7},
        {"gpu_busy": 0.97, "blocked": 0.7},
    ),
    "memory-swapping": (
        {"swap_bytes": 3 * GIB, "faults_per_s": 400.0},
        {"swap_bytes": 3 * GIB, "faults_per_s": 2.0},
    ),
    "saturated-workers": (
        {"gpu_busy": 0.5, "workers": 4, "workers_busy": 3, "workers_idle": 0},
        {"gpu_busy": 0.5, "workers": 4, "workers_busy": 4, "workers_idle": 0, "cores_used": 15.8},
    ),
    "waiting-outside": (
        {"gpu_busy": 0.1, "cores_used": 0.2, "waits_for": "a file lock", "waits_share": 0.9},
        {"gpu_busy": 0.1, "cores_used": 2.5, "waits_for": "storage", "waits_share": 0.9},
    ),
    "clock-throttling": (
        {"held_by_heat": 0.5},
        {"held_by_power": 0.9, "power_limit_ratio": 1.0},
    ),
}
"""suspicion -> what differs from a healthy job in a sick one, and in one that looks alike"""
SUSPICIONS = catalog.load_suspicions()


def view(changes: dict[str, object]) -> JobView:
    return msgspec.structs.replace(HEALTHY, **changes)


def test_each_has_a_pair():
    assert set(PAIRS) == set(SUSPICIONS)


@pytest.mark.parametrize("name", sorted(SUSPICIONS))
def test_it_fires_on_the_sick_job_only(name: str):
    sick, alike = PAIRS[name]
    suspected = SUSPICIONS[name].judge(view(sick))
    assert suspected is not None
    assert suspected.text.startswith("likely ")
    assert suspected.proof
    assert SUSPICIONS[name].judge(view(alike)) is None
    assert SUSPICIONS[name].judge(HEALTHY) is None


@pytest.mark.parametrize("name", sorted(SUSPICIONS))
def test_it_abstains_without_what_it_needs(name: str):
    one, (sick, _) = SUSPICIONS[name], PAIRS[name]
    assert one.needs
    for field in one.needs:
        assert one.judge(view({**sick, field: None})) is None
    if one.least_s:
        assert one.judge(view({**sick, "window_s": one.least_s / 2})) is None


@pytest.mark.parametrize("name", sorted(SUSPICIONS))
def test_only_one_fires_for_one_sickness(name: str):
    """Sick jobs are suspected of their own sickness first, and of one more at most."""
    fired = [other for other, one in SUSPICIONS.items() if one.judge(view(PAIRS[name][0]))]
    assert name in fired
    assert len(fired) <= 2, fired


def test_each_names_causes_that_exist():
    named = {one.cause for one in SUSPICIONS.values()} - {None}
    assert named <= set(catalog.load_causes())


def test_neighbours_that_use_the_cores():
    pushed = view({"gpu_busy": 0.2, "queued": 0.7, "cores_used": 0.3, "busiest_thread": 0.3})
    suspected = SUSPICIONS["cpu-starved"].judge(pushed)
    assert suspected is not None
    assert "waited for a core 70%" in suspected.text
    working = msgspec.structs.replace(pushed, gpu_busy=0.97)
    assert SUSPICIONS["cpu-starved"].judge(working) is None


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="gpu_bussy"):
        suspicion("x", state="starved", needs=("gpu_bussy",))
