"""Waiting for memory counts where the kernel says so, and only as far as data is waited for."""

import pytest

from whyidle import catalog
from whyidle.testing import contracts
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.watched import watched

JOB = {"cpu_user_s@pid7": (1.0, 0.0), "job_faults_major": (300.0, 0.0)}
GROUP = {"group_pressure_memory_some_s": (0.3, 0.0), "group_pressure_memory_full_s": (0.1, 0.0)}
MACHINE = {
    "pressure_memory_some_s": (0.3, 0.0),
    "pressure_memory_full_s": (0.1, 0.0),
    "machine_memory_bytes": 64e9,
}


def judge(values):
    job = Builder()
    for _ in range(6):
        with job.step():
            job.loader(ms(6), workers=2)
            job.op("aten::mm", kernels=[("sgemm", us(6000))])
            job.sync()
    declared = catalog.causes()["host-memory-pressure"]
    proof = contracts.run_cause(declared, [watched(job.timeline(), {**JOB, **values})])
    if proof is not None:
        contracts.check_proof(declared, proof)
    return proof


def test_the_job_s_own_group():
    proof = judge(GROUP)
    assert (proof.low, proof.high) == pytest.approx((0.1, 0.3), rel=0.01)


def test_the_machine_counts_where_the_job_holds_much_of_it():
    assert judge({**MACHINE, "job_memory_resident_bytes": 40e9}) is not None
    assert judge({**MACHINE, "job_memory_resident_bytes": 2e9}) is None


def test_no_pressure_no_word():
    assert judge({}) is None
    assert judge({**GROUP, "group_pressure_memory_some_s": (0.01, 0.0)}) is None
