"""Causes that telemetry from outside the process proves, on synthetic jobs."""

from dataclasses import replace

import numpy as np
import pytest

import cured_twins
from watched_run import add_telemetry
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.loader_tables import BATCH, Loading, Worker
from whyidle.model.proof_facts import AllocationFacts
from whyidle.testing import contracts
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Pair

STARVED = {
    "cpu_user_s@pid7": (1.0, 0.0),
    "cores_effective": 1.0,
    "job_cpu_user_s": (0.9, 5.0),
    "job_cpu_system_s": (0.08, 1.0),
}
BUSY = {
    "busy_ratio@gpu0": 0.97,
    "processes@gpu0": 1,
    "memory_used_bytes@gpu0": 20e9,
    "memory_total_bytes@gpu0": 80e9,
    "process_memory_bytes@gpu0.pid7": 20e9,
    "cpu_user_s@pid7": (1.0, 0.0),
}


def trained(loader_ms: float = 0.0, steps: int = 6):
    job = Builder()
    for _ in range(steps):
        with job.step():
            if loader_ms:
                job.loader(ms(loader_ms), workers=2)
            for _ in range(10):
                job.op("aten::mm", kernels=[("ampere_bf16_s16816gemm_bf16_128x128_tn", us(800))])
            job.sync()
    return job.timeline()


def recorded(values, timeline=None):
    return add_telemetry(timeline or trained(), values, process={"pid": 7})


def judge(cause, values, timeline=None):
    declared = catalog.load_causes()[cause]
    made = recorded(values, timeline)
    proof = cured_twins.judge(cause, made)
    if proof is not None:
        contracts.check_deterministic(declared, [made])
        contracts.check_bounds(diagnose_job([made]))
    return proof


def test_one_core_is_used_up_and_data_is_waited_for():
    proof = judge("cpu-starved-allocation", STARVED, trained(loader_ms=6))
    assert proof is not None
    assert "1 CPU core" in proof.headline
    assert proof.predicted.low == 1.0
    held = {**STARVED, "cores_effective": 2.0, "throttled_s": (0.3, 0.0)}
    assert judge("cpu-starved-allocation", held, trained(loader_ms=6)) is not None
    crowded = {**STARVED, "job_cpu_user_s": (0.4, 0.0), "job_running": 2.5}
    assert judge("cpu-starved-allocation", crowded, trained(loader_ms=6)) is not None


@pytest.mark.parametrize(
    ("changed", "loader_ms"),
    [
        ({"cores_effective": 8.0}, 6),  # plenty
        ({"job_cpu_user_s": (0.3, 0.0)}, 6),  # waits for storage, not for cores
        ({}, 0),  # nothing is waited for
    ],
)
def test_enough_cores_or_no_wait(changed, loader_ms):
    assert judge("cpu-starved-allocation", {**STARVED, **changed}, trained(loader_ms)) is None


def alone(*, cores=2.0, beside_ms=0.0, waits_ms=0.0, seen=True):
    """Batches of 6 ms made by the training thread, which waits for a core for a part of that, while
    other threads of its process use so much of the CPU."""
    job = Builder()
    for _ in range(6):
        with job.step():
            job.loader(ms(6))
            job.op("aten::mm", kernels=[("ampere_bf16_s16816gemm_bf16_128x128_tn", us(2000))])
            job.sync()
    made = np.zeros(6, BATCH)
    made["worker"], made["end"] = -1, ms(6)
    made["cpu"], made["delay"] = ms(6 - waits_ms), ms(waits_ms)
    made["process_cpu"] = made["cpu"] + ms(beside_ms)
    loading = Loading(batches=made if seen else made[:0], cores=cores, threads=2)
    return replace(job.timeline(), loading=loading)


def spun(used, cores=2.0):
    return {**STARVED, "cores_effective": cores, "job_cpu_user_s": (used, 0.0)}


@pytest.mark.parametrize(
    ("values", "job"),
    [
        (spun(1.8), alone(beside_ms=6)),  # threads of operators spin beside it
        (spun(1.8), alone()),  # others of the job use the other core
        (spun(0.95, 1.0), alone(cores=1.0)),  # all that one thread can use
        (spun(1.8), alone(seen=False)),
    ],
)
def test_a_thread_that_loads_by_itself_and_has_its_core_wants_no_more_of_them(values, job):
    assert judge("cpu-starved-allocation", values, job) is None
    assert judge("dataloader-no-workers", values, job)


def test_a_thread_that_loads_by_itself_wins_what_it_waits_for_its_core():
    """It shares the cores with other processes of the job."""
    job = alone(waits_ms=2)
    found = judge("cpu-starved-allocation", spun(1.9), job)
    assert found.high == pytest.approx(Facts(job).bucket_share("input") / 3, rel=0.05)
    assert found.predicted.high == pytest.approx(1 / (1 - found.high))
    values = {row.quantity: row.value for row in found.evidence}
    assert values["waiting for the next batch, share of step"] == Facts(job).bucket_share("input")
    assert values["waiting for a core while loading, share of step"] == found.high
    assert found.headline.endswith("waits for cores")
    assert judge("cpu-starved-allocation", spun(1.9), alone(waits_ms=2, beside_ms=4)) is None


def test_workers_are_told_of_their_threads_only_where_they_have_several():
    proof = judge("cpu-starved-allocation", STARVED, trained(loader_ms=6))
    fix = catalog.load_fixes()["more-cores"]
    assert "workers" not in fix.decide(proof).summary
    several = replace(trained(loader_ms=6), loading=Loading(workers=(Worker(0, 0, 0, 4),)))
    proof = judge("cpu-starved-allocation", STARVED, several)
    assert "one thread per worker" in fix.decide(proof).summary


def test_another_process_on_the_gpu():
    other = {"process_memory_bytes@gpu0.pid9": 1e9, "process_busy_ratio@gpu0.pid9": 0.4}
    proof = judge("gpu-contention", {**BUSY, **other})
    assert proof is not None
    assert "1 other process computes" in proof.headline
    assert proof.high == pytest.approx(0.4)
    idle = {**other, "process_busy_ratio@gpu0.pid9": 0.0}
    assert judge("gpu-contention", {**BUSY, **idle}) is None
    worker = {"cpu_user_s@pid9": (1.0, 0.0)}
    assert judge("gpu-contention", {**BUSY, **other, **worker}) is None


def test_ids_of_another_namespace_blame_nobody():
    there = {"process_memory_bytes@gpu0.pid900": 1e9, "process_busy_ratio@gpu0.pid900": 0.9}
    values = {name: value for name, value in BUSY.items() if ".pid" not in name} | there
    assert judge("gpu-contention", values) is None


def test_a_small_job_on_a_big_gpu():
    small = {"sm_active_ratio@gpu0": 0.1, "memory_used_bytes@gpu0": 4e9}
    proof = judge("gpu-too-big-for-job", {**BUSY, **small})
    assert proof is not None
    assert proof.high == 0.0
    assert judge("gpu-too-big-for-job", {**BUSY, **small, "sm_active_ratio@gpu0": 0.5}) is None
    assert judge("gpu-too-big-for-job", {**BUSY, "sm_active_ratio@gpu0": 0.1}) is None
    assert judge("gpu-too-big-for-job", {**BUSY, **small}, trained(loader_ms=20)) is None


def test_gpus_that_nvml_saw_idle():
    rest = {f"busy_ratio@gpu{i}": 0.0 for i in (1, 2, 3)} | {f"processes@gpu{i}": 0 for i in (1, 2)}
    proof = judge("idle-allocated-gpu", {**BUSY, **rest})
    assert proof.facts == AllocationFacts(used=1, listed=4)
    taken = {**rest, "processes@gpu1": 1, "busy_ratio@gpu2": 0.3, "processes@gpu3": 2}
    assert judge("idle-allocated-gpu", {**BUSY, **taken}) is None


def test_a_diagnosis_tells_how_well_the_gpus_were_used():
    values = {**BUSY, "power_w@gpu0": 300.0, "energy_j@gpu0": (300.0, 1e6)}
    made = add_telemetry(trained(), values, process={"pid": 7})
    utilization = diagnose_job([made]).utilization
    assert (utilization.gpu_util, utilization.power_w) == pytest.approx((0.97, 300.0))
    assert utilization.energy_j_per_step == pytest.approx(300.0 * Facts(made).step_s, rel=0.01)
    assert utilization.sm_active is None


OTHER = {"process_memory_bytes@gpu0.pid9": 1e9, "process_busy_ratio@gpu0.pid9": 0.4}
SMALL = {"sm_active_ratio@gpu0": 0.1, "memory_used_bytes@gpu0": 4e9}
PAIRS = {
    "cpu-starved-allocation": Pair(
        sick=lambda: recorded(STARVED, trained(loader_ms=6)),
        healthy=lambda: recorded({**STARVED, "cores_effective": 8.0}, trained(loader_ms=6)),
    ),
    "gpu-contention": Pair(
        sick=lambda: recorded({**BUSY, **OTHER}),
        healthy=lambda: recorded({**BUSY, **OTHER, "process_busy_ratio@gpu0.pid9": 0.0}),
    ),
    "gpu-too-big-for-job": Pair(
        sick=lambda: recorded({**BUSY, **SMALL}),
        healthy=lambda: recorded({**BUSY, **SMALL, "sm_active_ratio@gpu0": 0.5}),
    ),
}
