"""Matrix work in 32 bits."""

from dataclasses import replace

import pytest

from cured_twins import covers, judge, twin_speedup
from imagined_jobs import single_precision
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "no-mixed-precision"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<{}>>"
GEMMS = {
    "fp32": "ampere_sgemm_128x128_tn",
    "tf32": "cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align4",
    "bf16": "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_nn",
}


def train(precision="fp32", *, gemm=600, add=100, host=6, **device):
    job = Builder(**device)
    kind = "float" if precision != "bf16" else "c10::BFloat16"
    for _ in range(4):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[(GEMMS[precision], us(gemm))], host=us(host))
                job.op("aten::add", kernels=[(ADD.format(kind), us(add))], host=us(host))
    return job


def test_fp32_on_tensor_cores_is_found():
    proof = judge(CAUSE, train())
    assert proof is not None
    assert proof.facts.dtype == "bfloat16"
    assert proof.low > 0.2


@pytest.mark.parametrize(("gemm", "add"), [(1.6, 1.0), (2.5, 1.4), (3.5, 2.0)])
def test_the_prediction_holds_the_twin(gemm, add):
    sick = train()
    cured = train("bf16", gemm=600 / gemm, add=100 / add)
    assert covers(judge(CAUSE, sick), twin_speedup(sick, cured))


def test_little_is_promised_while_the_host_is_the_bottleneck():
    proof = judge(CAUSE, train(gemm=30, add=5, host=60))
    assert proof is None or proof.predicted.speedup < 1.03


def test_tf32_gains_less():
    fp32, tf32 = judge(CAUSE, train()), judge(CAUSE, train("tf32"))
    assert tf32 is not None
    assert tf32.predicted.speedup < fp32.predicted.speedup


@pytest.mark.parametrize("ratio", [1.25, 2.0, 4.0])
def test_from_tf32_the_device_s_own_peaks_tell_how_much(ratio):
    peaks = (1e12, 8e12, ratio * 8e12, ratio * 8e12, 1e12)
    sick, cured = (
        train(kind, gemm=gemm, add=0.1) for kind, gemm in (("tf32", 600), ("bf16", 750 / ratio))
    )
    seen = sick.timeline()
    seen = replace(seen, info=replace(seen.info, peaks=peaks))
    proof = judge(CAUSE, seen)
    assert covers(proof, twin_speedup(sick, cured))
    assert proof.predicted.speedup == pytest.approx(max(1.0, 0.7 * ratio), rel=0.15)


def test_shapes_tell_what_of_a_kernel_sixteen_bits_shorten():
    """An A100: at the FP32 peak the FLOPs alone take 881 of 1200 us, in bf16 a sixteenth of it;
    three tensors of 16.8 MB take 24.7, and half of that."""
    shapes = [[2048, 2048], [2048, 2048]]
    jobs = []
    for kind, took in (("fp32", 1200), ("bf16", 1200 - 881 * 15 / 16 - 12)):
        job = Builder(device="NVIDIA A100-SXM4-80GB", capability=(8, 0))
        for _ in range(4):
            with job.step():
                for _ in range(20):
                    job.op("aten::mm", kernels=[(GEMMS[kind], us(took))], host=us(6), dims=shapes)
        jobs.append(job)
    proof = judge(CAUSE, jobs[0])
    assert proof.predicted.speedup == pytest.approx(twin_speedup(*jobs), rel=0.05)


def launching(host, gemm=600):
    """A job of linear layers whose launches take ``host`` us each."""
    job = Builder(device="NVIDIA A100-SXM4-80GB", capability=(8, 0))
    shapes = [[1024, 2048], [2048, 2048], [2048]]
    for _ in range(4):
        with job.step():
            for _ in range(20):
                kernels = [(GEMMS["fp32"], us(gemm))]
                job.op("aten::linear", kernels=kernels, host=us(host), dims=shapes)
            job.op("aten::sum", kernels=[("reduce_kernel", us(2))], host=us(6))
    return job


def test_casts_may_cost_a_waiting_device_more_than_they_win(monkeypatch):
    """Its host is as slow as the device: what is careful is below 1, and nothing is lost at most;
    one that launches in microseconds has nothing to fear."""
    slow, fast = judge(CAUSE, launching(300)), judge(CAUSE, launching(6))
    assert slow.predicted.low < 0.5
    assert slow.predicted.speedup >= 1.0
    assert slow.low == 0.0
    assert fast.predicted.low > 1.1
    monkeypatch.setattr("whyidle.causes.device.no_mixed_precision.AUTOCAST_COST", (1.0, 1.0))
    assert slow.predicted.low < 0.5 * judge(CAUSE, launching(300)).predicted.low


def test_a_host_with_time_to_spare_is_expected_to_lose_it_to_casts(monkeypatch):
    """Launching takes it less than its device works, and with casts more."""
    predicted = judge(CAUSE, launching(100)).predicted
    monkeypatch.setattr("whyidle.causes.device.no_mixed_precision.AUTOCAST_COST", (5.0, 1.0))
    bare = judge(CAUSE, launching(100)).predicted
    assert bare.speedup > 1.1 * predicted.speedup
    assert predicted.speedup > predicted.low


def test_volta_gets_float16():
    proof = judge(CAUSE, train(device="Tesla V100-SXM2-32GB", capability=(7, 0)))
    assert proof is not None
    assert proof.facts.dtype == "float16"
    assert "run in FP32 (" in proof.headline  # there is no TF32 before Ampere


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_only_a_precision_that_was_seen_is_named(precision):
    assert f"run in {precision.upper()} (" in judge(CAUSE, train(precision)).headline


@pytest.mark.parametrize(
    ("device", "dtype"),
    [("Tesla V100-SXM2-32GB", "float16"), ("Tesla T4", "float16"), ("Tesla P100", None),
     ("NVIDIA A100-SXM4-40GB", "bfloat16")],
)  # fmt: skip
def test_a_capability_that_was_not_recorded_is_that_of_the_model(device, dtype):
    """Whatever kernels are called: libraries use those of older devices on newer ones."""
    timeline = train(device=device).timeline()
    timeline = replace(timeline, info=replace(timeline.info, capability=None))
    proof = judge(CAUSE, timeline)
    assert (proof.facts.dtype if proof else None) == dtype
    assert (judge("tf32-disabled", timeline) is not None) == (dtype == "bfloat16")


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(lambda: train(device="Tesla P100", capability=(6, 0)), id="no tensor cores"),
    ],
)
def test_silent(job):
    assert judge(CAUSE, job()) is None


def test_the_shared_sick_job():
    assert judge(CAUSE, single_precision()) is not None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train("bf16"))}
