"""Causes that only a look from outside the process can prove, on imagined jobs."""

import pytest

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.engine.diagnose import diagnose
from whyidle.testing import contracts
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.watched import watched

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


def judge(cause, values, timeline=None, **options):
    declared = catalog.causes()[cause]
    made = watched(timeline or trained(), values, settings={"pid": 7}, **options)
    proof = contracts.run_cause(declared, [made])
    if proof is not None:
        contracts.check_proof(declared, proof)
        contracts.check_deterministic(declared, [made])
        contracts.check_bounds(diagnose([made]))
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
    assert proof.facts == {"used": 1, "listed": 4}
    taken = {**rest, "processes@gpu1": 1, "busy_ratio@gpu2": 0.3, "processes@gpu3": 2}
    assert judge("idle-allocated-gpu", {**BUSY, **taken}) is None


def test_a_diagnosis_tells_how_well_the_gpus_were_used():
    values = {**BUSY, "power_w@gpu0": 300.0, "energy_j@gpu0": (300.0, 1e6)}
    made = watched(trained(), values, settings={"pid": 7})
    told = diagnose([made]).utilization
    assert (told.gpu_util, told.power_w) == pytest.approx((0.97, 300.0))
    assert told.energy_j_per_step == pytest.approx(300.0 * Facts(made).step_s, rel=0.01)
    assert told.sm_active is None
