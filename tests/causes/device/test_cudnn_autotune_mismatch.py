"""Algorithm searches of convolutions: repeated, in the warm-up only, or missing."""

import pytest

from cured_twins import covers, judge, twin_speedup
from watched_run import add_facts
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "cudnn-autotune-mismatch"
CONV = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
OFF = {"switches": {"cudnn_benchmark": False, "cudnn_deterministic": False}}


def convolve(job, searched, dims):
    with job.span("aten::cudnn_convolution", "cpu_op", **{"Input Dims": dims}):
        for algorithm in range(6 if searched else 0):
            job.launch(CONV, us(300 * (1 + algorithm)))
            job.sync("cudaEventSynchronize")
        job.launch(CONV, us(300))


def train(searching=(), *, steps=6, sizes=1, conv=8, gemm=4):
    """A job that searches in some of its steps."""
    job = Builder()
    for step in range(steps):
        with job.step():
            for layer in range(conv):
                size = 32 + step % sizes
                convolve(job, step in searching, [[8, 64, size, size], [64, 64, 3, 3], [layer]])
            for _ in range(gemm):
                job.op("aten::mm", kernels=[(GEMM, us(200))])
            job.sync()
    return job


def judge_with_facts(job, settings):
    """The cause's answer where the process tells of its switches."""
    timeline = add_facts(job.timeline(), settings)
    return judge(CAUSE, timeline)


def test_the_prediction_holds_the_twin_that_does_not_search():
    sick = train(searching=range(6), sizes=6)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, train(sizes=6)))
    assert proof.predicted.speedup == pytest.approx(twin_speedup(sick, train(sizes=6)), rel=0.05)
    plan = catalog.load_fixes()["cudnn-benchmark"].decide(proof)
    assert [(each.knob, each.value) for each in plan.edits] == [("torch.cudnn_benchmark", False)]


def test_of_a_burst_every_step_counts():
    """Its figures leave out a first step that is far longer, and a last that is far shorter."""
    job = Builder()
    for step, layers in enumerate((24, 4, 4)):
        with job.step():
            for layer in range(layers):
                convolve(job, step < 2, [[8, 64, 32 + step, 32], [64, 64, 3, 3], [layer]])
            job.sync()
    assert Facts(job.timeline()).steps.steady.tolist() == [False, True, False]
    assert judge(CAUSE, job) is None
    assert "in 2 of 3 steps" in judge_with_facts(job, {"burst": {"before_s": 0.01}}).headline


def test_its_waits_are_no_reads_of_values():
    sick = train(searching=range(6), sizes=6)
    assert judge("per-step-host-sync", sick) is None
    assert len(Facts(sick.timeline()).waits.search_waits) > 100


@pytest.mark.parametrize("searching", [(), (2,)])
def test_silent_where_searching_is_no_habit(searching):
    assert judge(CAUSE, train(searching=searching)) is None


def test_a_wait_outside_of_a_convolution_is_another_thing():
    job = Builder()
    for _ in range(6):
        with job.step():
            for _ in range(8):
                job.op("aten::cudnn_convolution", kernels=[(CONV, us(300))])
                with job.span("aten::item", "cpu_op"):
                    job.sync()
    assert judge(CAUSE, job) is None


def test_a_launch_that_waits_in_a_full_queue_is_no_search():
    job = Builder()
    for _ in range(6):
        with job.step():
            for _ in range(8):
                with job.span("aten::cudnn_convolution", "cpu_op"):
                    job.launch(CONV, us(300), blocking=True)
    assert judge(CAUSE, job) is None


def test_where_nothing_was_ever_searched_a_trial_is_offered_and_nothing_promised():
    proof = judge_with_facts(train(), OFF)
    assert proof.predicted.low == proof.predicted.speedup == 1.0
    assert proof.predicted.high > 1.2
    plan = catalog.load_fixes()["cudnn-benchmark"].decide(proof)
    assert [(each.knob, each.value) for each in plan.edits] == [("torch.cudnn_benchmark", True)]


@pytest.mark.parametrize(
    ("job", "settings"),
    [
        (train(), {}),
        (train(), {"switches": {"cudnn_benchmark": True}}),
        (train(), {"switches": {"cudnn_benchmark": False, "cudnn_deterministic": True}}),
        (train(sizes=6), OFF),
        (train(conv=1, gemm=40), OFF),
    ],
    ids=["untold", "on", "deterministic", "new shapes", "few convolutions"],
)
def test_no_trial_is_offered(job, settings):
    assert judge_with_facts(job, settings) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(range(6), sizes=6), healthy=lambda: train((0,)))}
