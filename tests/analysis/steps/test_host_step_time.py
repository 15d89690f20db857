"""What the host needs for a step of its own, where it waits in its launches, or is far ahead."""

import pytest

from cured_twins import judge
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.host_step_time import call_gap_s, is_far_ahead, pace_s
from whyidle.testing.builder import Builder, ms, us

GEMM = "ampere_sgemm_128x128_tn"


def steps(host_us, *, behind_ms=0, device_us=600, launches=20):
    """A loop whose device may be behind by so many ms when it begins."""
    job = Builder()
    if behind_ms:
        job.op("aten::mm", kernels=[(GEMM, ms(behind_ms))], host=us(5))
    for _ in range(4):
        with job.step():
            for _ in range(launches):
                job.op("aten::mm", kernels=[(GEMM, us(device_us))], host=us(host_us))
    return job


@pytest.mark.parametrize("behind_ms", [0, 400])
def test_the_pace_is_what_the_host_takes(behind_ms):
    facts = Facts(steps(200, behind_ms=behind_ms).timeline())
    assert is_far_ahead(facts) is bool(behind_ms)
    assert pace_s(facts) == pytest.approx(20 * 200e-6, rel=0.1)


def test_a_recording_without_calls_tells_no_pace():
    job = Builder()
    for _ in range(3):
        with job.step():
            job.quiet(ms(5))
    assert pace_s(Facts(job.timeline())) == 0.0


def test_from_one_call_to_the_next():
    facts = Facts(steps(200).timeline())
    calls = facts.launches.call[facts.kernels]
    assert call_gap_s(facts, calls) == pytest.approx(200e-6, rel=0.1)
    assert call_gap_s(facts, calls[:1]) == 0.0


def test_a_host_that_is_far_ahead_limits_what_a_faster_device_wins():
    """12 ms of the device, 10 of the host: no precision makes that step shorter."""
    promised = judge("no-mixed-precision", steps(500, behind_ms=400)).predicted
    assert promised.speedup == pytest.approx(1.2, rel=0.05)
    assert promised.high > 2.0
    assert judge("no-mixed-precision", steps(50, behind_ms=400)).predicted.speedup > 2.0
