"""More threads, or processes, than cores: of a training process, and of a command without steps."""

import pytest
from imagined import Imagined, finding

from whyidle.testing.contracts import check_bounds

CROWDED = {
    "cpu_user_s@pid7": (1.0, 0.0),
    "cores_effective": 2.0,
    "job_cpu_user_s": (1.95, 0.0),
    "job_cpu_system_s": (0.02, 0.0),
    "job_running": 1.0,
}
WAITS = {"core_wait_s": 4.0, "core_seen_s": 10.0}


def trained(folder, threads=16, values=None, sampler=None):
    made = Imagined(folder, switches={"num_threads": threads}, sampler=sampler or WAITS)
    for _ in range(500):
        made.step()
    made.trained()
    made.telemetry({**CROWDED, **(values or {})})
    told = made.diagnose()
    check_bounds(told)
    return finding(told, "cpu-oversubscription"), told


def test_operators_on_more_threads_than_cores(tmp_path):
    found, told = trained(tmp_path)
    assert told.findings[0] is found
    assert found.severity == "warning"
    assert (found.bucket, found.lost.low) == ("compute", 0.0)
    assert found.lost.high == pytest.approx(1 - 1 / found.removal.high)
    assert "16 threads" in found.headline
    fix = found.fixes[0]
    assert fix.edits[0].value == 2
    assert fix.predicted.high == pytest.approx(1 / 0.6, rel=0.01)


def test_what_other_programs_leave_counts_as_all(tmp_path):
    found, _ = trained(
        tmp_path, values={"job_cpu_user_s": (1.5, 0.0), "machine_cpu_idle_s": (0.1, 0.0)}
    )
    assert found
    assert found.removal.speedup is None  # how long the threads spin is unknown


@pytest.mark.parametrize(
    ("threads", "values", "sampler"),
    [
        (2, {}, WAITS),  # as many as cores
        (16, {"job_cpu_user_s": (0.5, 0.0)}, WAITS),  # others take the cores
        (16, {}, {"core_wait_s": 0.2, "core_seen_s": 10.0}),  # nobody waits
        (16, {}, {"looks": 10}),  # the kernel does not tell
    ],
)
def test_near_misses(tmp_path, threads, values, sampler):
    assert trained(tmp_path, threads, values, sampler)[0] is None
