"""What a recording shows."""

import pytest

from imagined_jobs import healthy
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.serving_steps import serving_steps
from whyidle.testing.builder import Builder, ms, us


def kind_of(job: Builder) -> tuple[str, str | None] | None:
    kind = Facts(job.timeline()).kind
    return (kind.kind, kind.engine) if kind else None


def forward(mark: str = "", *, kernel: str = "gemm", graph: bool = False) -> Builder:
    job = Builder()
    for _ in range(4):
        with job.span(mark or "loop"):
            for _ in range(0 if graph else 10):
                job.op("aten::mm", kernels=[(kernel, us(100))])
            if graph:
                job.op("aten::cumsum", host=us(300))
                job.graph([(kernel, us(100))] * 10)
            job.sync()
    return job


MARKS = {
    "step[DECODE bs=16]": ("decode", "SGLang"),
    "step[EXTEND bs=1 toks=512]": ("prefill", "SGLang"),
    "execute_context_0(0)_generation_16(16)": ("decode", "vLLM"),
    "execute_context_2(900)_generation_3(3)": ("prefill", "vLLM"),
    "execute_new_0_cached_16": ("decode", "vLLM"),
    "execute_32_context_0(sq0sk0)_generation_32(sq32sk32)": ("decode", "vLLM"),
    "execute_8192_context_9(sq8155sk8430)_generation_0(0)": ("prefill", "vLLM"),
    "[Executor] _forward_step 12: 0 ctx reqs, 0 ctx tokens, 16 gen reqs": (
        "decode",
        "TensorRT-LLM",
    ),
    "[Executor] _forward_step 13: 2 ctx reqs, 900 ctx tokens, 3 gen reqs": (
        "prefill",
        "TensorRT-LLM",
    ),
    "[param|torch.add|0]": ("microbenchmark", None),
    "loop": ("inference", None),
    "step_size": ("inference", None),
}


@pytest.mark.parametrize("mark", MARKS)
def test_annotations_tell(mark):
    assert kind_of(forward(mark)) == MARKS[mark]


def test_an_engine_s_own_marks_count_beside_those_of_a_tool():
    job = Builder()
    for i in range(3):
        with job.span(f"execute_32_context_0(sq0)_generation_32(sq{i})"):
            job.quiet(us(500))
            with job.span("step[DECODE bs=32]"):
                job.op("aten::mm", kernels=[("gemm", us(100))])
            job.sync()
    facts = Facts(job.timeline())
    assert kind_of(job) == ("decode", "SGLang")
    assert len(facts.steps) == 3
    marks = serving_steps(facts.timeline)[1]
    assert {facts.timeline.names[i] for i in facts.timeline.host.name[marks]} == {
        "step[DECODE bs=32]"
    }


KERNELS = {
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<bf16>": "decode",
    "void flashinfer::BatchPrefillWithPagedKVCacheKernel<bf16>": "prefill",
    "void cudnn::bn_bw_1C11_kernel_new<float>(float)": "inference",
    "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel": "training",
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_tell_without_annotations(name):
    assert kind_of(forward(kernel=name))[0] == KERNELS[name]


def test_an_optimizer_trains():
    assert kind_of(healthy())[0] == "training"


def test_a_start_is_a_warm_up():
    job = Builder()
    with job.step():
        job.runtime("cuModuleLoadData", ms(500))
        job.op("aten::mm", kernels=[("gemm", us(100))])
    with job.step():
        job.op("aten::mm", kernels=[("gemm", us(100))])
    assert kind_of(job)[0] == "warm_up"


def test_repeated_graphs_are_steps():
    """A server without annotations: one graph a step, or a graph for each piece of the model."""
    steps = Facts(forward(graph=True).timeline()).steps
    assert steps.found_by == "repeated CUDA graphs"
    assert len(steps) == 4
    job = Builder()
    for _ in range(5):
        for size in (3, 7, 7):
            job.graph([("gemm", us(50))] * size)
        job.sync()
    assert len(Facts(job.timeline()).steps) == 5


@pytest.mark.parametrize("graphs", [("a",), ("a", "b")])
def test_repeated_calls_of_compiled_graphs_are_steps(graphs):
    """A model that denoises, in one piece or with a graph break."""
    job = Builder()
    for _ in range(4):
        for graph in graphs:
            with job.span(f"## Call CompiledFxGraph {graph} ##"):
                job.launch("triton_poi_fused_0", us(200))
        job.sync()
    steps = Facts(job.timeline()).steps
    assert (len(steps), steps.found_by) == (4, "repeated calls of compiled graphs")


def test_graphs_without_a_period_are_no_steps():
    job = Builder()
    for size in (3, 7, 2, 9, 4, 8, 1):
        job.graph([("gemm", us(50))] * size)
        job.sync()
    assert Facts(job.timeline()).steps.found_by is None
