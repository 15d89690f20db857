"""Forms of the model that a look measured, as findings."""

from dataclasses import replace

import pytest
from msgspec import structs

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.model_look import ModelLook, SwapTimes
from whyidle.testing.builder import Builder, ms
from whyidle.testing.contracts import Pair

CAUSE = "slower-model-form"
FASTER = ((0.1, 0.05),) * 5
SAME = ((0.1, 0.1),) * 5


def looked(*swaps):
    job = Builder()
    for _ in range(8):
        with job.step():
            job.op("aten::mm", kernels=[("gemm", ms(90))], host=ms(100))
    look = ModelLook(
        state="measured",
        device="cuda",
        batch=8,
        modules=(("net", "Net"), ("net.a", "Conv2d")),
        passes=(0.1, 0.1),
        calls=((1, 2, 0.02, 0.04, 1e9, 1_000_000),),
        peak_flops=1e11,
        peak_bytes=1e9,
        swaps=tuple(SwapTimes(kind, keeps, pairs) for kind, keeps, pairs in swaps),
    )
    timeline = job.timeline()
    return replace(timeline, process=structs.replace(timeline.process, model_look=look))


def found(timeline):
    return next((one for one in diagnose_job([timeline]).findings if one.cause == CAUSE), None)


def test_the_largest_gain_with_the_same_results_is_the_finding():
    finding = found(looked(("bfloat16", False, FASTER), ("channels_last", True, FASTER)))
    assert {fix.consent for fix in finding.fixes} == {"rounding", "numerics"}
    assert all(fix.predicted.low > 1.0 and not fix.automatic for fix in finding.fixes)
    assert finding.severity != "info"


@pytest.mark.parametrize("pairs", [SAME, tuple((b, a) for a, b in FASTER), FASTER[:2]])
def test_nothing_is_found_within_the_noise(pairs):
    assert found(looked(("channels_last", True, pairs))) is None


PAIRS = {
    CAUSE: Pair(
        sick=lambda: looked(("channels_last", True, FASTER)),
        healthy=lambda: looked(("channels_last", True, SAME)),
    )
}
