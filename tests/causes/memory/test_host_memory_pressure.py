"""Waits for memory count as the kernel reports them, while the job waits for data."""

import pytest

import cured_twins
from watched_run import add_telemetry
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Pair

JOB = {"cpu_user_s@pid7": (1.0, 0.0), "job_faults_major": (300.0, 0.0)}
GROUP = {"group_pressure_memory_some_s": (0.3, 0.0), "group_pressure_memory_full_s": (0.1, 0.0)}
MACHINE = {
    "pressure_memory_some_s": (0.3, 0.0),
    "pressure_memory_full_s": (0.1, 0.0),
    "machine_memory_bytes": 64e9,
}
FULL_GROUP = {
    **MACHINE,
    "machine_memory_available_bytes": 40e9,
    "machine_faults_major": (400.0, 0.0),
    "group_memory_bytes": 3.95e9,
    "group_memory_limit_bytes": 4e9,
    "group_memory_file_bytes": 0.3e9,
    "job_memory_resident_bytes": 3.6e9,
}
"""a group of version 1, which tells no pressure of its own"""


def recorded(values, workers=2):
    job = Builder()
    for _ in range(6):
        with job.step():
            job.loader(ms(6), workers=workers)
            job.op("aten::mm", kernels=[("sgemm", us(6000))])
            job.sync()
    return add_telemetry(job.timeline(), {**JOB, **values})


def judge(values, cause="host-memory-pressure", **job):
    return cured_twins.judge(cause, recorded(values, **job))


def test_the_job_s_own_group():
    proof = judge(GROUP)
    assert (proof.low, proof.high) == pytest.approx((0.1, 0.3), rel=0.01)


def test_the_machine_counts_where_the_job_holds_much_of_it():
    assert judge({**MACHINE, "job_memory_resident_bytes": 40e9}) is not None
    assert judge({**MACHINE, "job_memory_resident_bytes": 2e9}) is None


def test_no_pressure_no_word():
    assert judge({}) is None
    assert judge({**GROUP, "group_pressure_memory_some_s": (0.01, 0.0)}) is None


def test_a_full_group_on_a_machine_with_room():
    proof = judge(FULL_GROUP)
    assert (proof.low, proof.high) == pytest.approx((0.1, 0.3), rel=0.01)
    values = {row.quantity: row.value for row in proof.evidence}
    assert values["limit of the job's control group"] == 4e9
    assert values["memory of the job's control group"] == 3.95e9


@pytest.mark.parametrize(
    "other",
    [
        {"group_memory_bytes": 3.5e9},
        {"group_memory_limit_bytes": 8e9},
        {"machine_memory_available_bytes": 2e9},  # then it may be anybody's
        {"machine_faults_major": (4000.0, 0.0)},  # others wait for pages
        {"job_faults_major": (0.0, 0.0)},
        {"pressure_memory_some_s": (0.01, 0.0)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_near_misses_of_a_full_group(other):
    assert judge({**FULL_GROUP, **other}) is None


AGAIN = {
    **FULL_GROUP,
    "job_faults_major": (0.0, 0.0),
    "pressure_io_some_s": (0.5, 0.0),
    "group_read_again_bytes": (80e6, 0.0),
    "job_read_bytes": (100e6, 0.0),
}
"""content of files that was in memory before is four fifths of what is read"""


def test_in_a_full_group_what_is_read_again_counts():
    proof = judge(AGAIN)
    assert (proof.low, proof.high) == pytest.approx((0.1, 0.4), rel=0.01)
    values = {row.quantity: row.value for row in proof.evidence}
    assert values["share of reads that were in memory before"] == pytest.approx(0.8)
    kernel = judge({**AGAIN, "job_cpu_system_s": (0.05, 0.0)})
    assert (kernel.low, kernel.high) == pytest.approx((0.1, 0.44), rel=0.01)


@pytest.mark.parametrize(
    "other",
    [
        {"group_read_again_bytes": (40e6, 0.0)},  # and most of it the first time
        {"group_memory_bytes": 3.5e9},
        {"machine_memory_available_bytes": 2e9},
        {"job_read_bytes": (0.0, 0.0)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_near_misses_of_reading_again(other):
    assert judge({**AGAIN, **other}) is None


def test_who_waits_for_memory_is_not_told_to_need_more_of_it():
    """More workers would hold more batches."""
    few = "dataloader-no-workers"
    assert judge({}, few, workers=0) is not None
    assert judge(FULL_GROUP, few, workers=0) is None
    assert judge({**FULL_GROUP, "pressure_memory_some_s": (0.1, 0.0)}, few, workers=0) is not None


PAIRS = {
    "host-memory-pressure": Pair(
        sick=lambda: recorded(GROUP),
        healthy=lambda: recorded({**GROUP, "group_pressure_memory_some_s": (0.01, 0.0)}),
    )
}
