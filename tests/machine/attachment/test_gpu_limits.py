"""What a GPU's utilization says of a thread's waits."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.machine.attachment.gpu_limits import limit_by_gpu, mean_busy
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.testing.recorded_job import RecordedJob


@pytest.fixture(scope="module")
def starved() -> Diagnosis:
    job = RecordedJob()
    for _ in range(20):
        job.batch(60_000_000)
        job.work("/job/train.py(21): <module>", 20_000_000)
        job.step("/job/train.py(22): <module>", 20_000_000)
    diagnosis = diagnose_job([job.timeline()])
    assert diagnosis.findings[0].lost.high > 0.5
    return diagnosis


def shares_of(diagnosis: Diagnosis) -> float:
    return sum(getattr(diagnosis.attribution, bucket) for bucket in BUCKETS)


def test_no_wait_costs_more_than_the_idle_time(starved: Diagnosis):
    limited = limit_by_gpu(starved, 0.7)
    assert limited.device.kind == "cuda"
    assert limited.verdict.state == "starved"
    assert "idle 30% of the look" in limited.verdict.headline
    assert limited.findings[0].lost.high == pytest.approx(0.3)
    assert all(
        f.predicted is None or f.predicted.high <= 1 / 0.7 for f in limited.findings[0].fixes
    )
    assert limited.attribution.compute == pytest.approx(0.7)
    assert shares_of(limited) == pytest.approx(1.0)


def test_idle_time_without_a_wait_is_unknown(starved: Diagnosis):
    limited = limit_by_gpu(starved, 0.1)
    assert limited.attribution.unknown == pytest.approx(0.9 - starved.attribution.input, abs=0.02)
    assert shares_of(limited) == pytest.approx(1.0)


@pytest.mark.parametrize("busy", [0.95, None])
def test_a_busy_or_unread_gpu_gives_no_verdict(starved: Diagnosis, busy: float | None):
    limited = limit_by_gpu(starved, busy)
    assert limited.verdict.state == "inconclusive"
    assert "GPU" in limited.verdict.headline
    assert shares_of(limited) == pytest.approx(1.0)
    assert msgspec.json.decode(msgspec.json.encode(limited), type=Diagnosis) == limited


def test_only_gpus_of_the_processes_count():
    def series(value: float) -> Series:
        return Series(np.arange(3), np.full(3, value))

    telemetry = Telemetry(
        {
            "busy_ratio@gpu0": series(0.2),
            "busy_ratio@gpu1": series(0.9),
            "memory_used_bytes@gpu0.pid7": series(1e9),
            "memory_used_bytes@gpu1.pid8": series(1e9),
        }
    )
    assert mean_busy(telemetry, [7]) == pytest.approx(0.2)
    assert mean_busy(telemetry, [9]) is None
    assert mean_busy(None, [7]) is None
