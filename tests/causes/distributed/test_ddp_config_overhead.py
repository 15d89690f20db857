"""Copies out of buckets and walks of the graph are found where the device waits for them."""

from dataclasses import replace

from judging import covers, judge, judge_all, measured

from whyidle import catalog
from whyidle.model.timeline import DeviceInfo, Timeline
from whyidle.testing.builder import Builder, us

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
COPY = "at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"
CAUSE = "ddp-config-overhead"
COPY_OP = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
WALK_OP = "torch.distributed.ddp.reducer::search_unused_parameters"


def job(*, copies: int = 0, walk: float = 0, layer: float = 30) -> Builder:
    made = Builder(rank=0, world_size=2)
    for _ in range(5):
        with made.step():
            with made.span("DistributedDataParallel.forward"):
                for _ in range(40):
                    made.op("aten::mm", kernels=[(GEMM, us(layer))], host=us(25))
            if walk:
                with made.span(WALK_OP, "cpu_op"):
                    made.quiet(us(walk))
            for _ in range(40):
                made.op("aten::mm_backward", kernels=[(GEMM, us(layer))], host=us(25))
            made.collective(us(100))
            made.join()
            for _ in range(copies):
                with made.span(COPY_OP, "cpu_op"):
                    made.op("aten::copy_", kernels=[(COPY, us(2))], host=us(8))
            made.optimizer([("multi_tensor_apply_kernel", us(50))])
            made.sync()
    return made


def test_copies_out_of_buckets():
    proof = judge(CAUSE, job(copies=80))
    assert proof is not None
    assert covers(proof, measured(job(copies=80), job()))
    plan = catalog.treatments()["ddp-settings"].decide(proof)
    assert "gradient_as_bucket_view=True" in plan.summary
    assert "static_graph" not in plan.summary


def test_walks_for_unused_parameters():
    proof = judge(CAUSE, job(walk=600))
    assert proof is not None
    assert covers(proof, measured(job(walk=600), job()))
    plan = catalog.treatments()["ddp-settings"].decide(proof)
    assert "static_graph" in plan.summary


def test_a_device_with_enough_to_do_does_not_notice():
    proof = judge(CAUSE, job(copies=80, walk=600, layer=400))
    assert proof is None or proof.high < 0.03


def test_without_ddp_nothing_is_said():
    assert judge(CAUSE, job()) is None


def watched(*, walk: float, told: dict[str, object]) -> Timeline:
    """A rank whose device is the CPU, as the probe records it."""
    made = Builder(rank=0, world_size=2)
    for _ in range(6):
        with made.step():
            for _ in range(10):
                with made.span("aten::mm", "cpu_op"):
                    made.quiet(us(800))
            if walk:
                with made.span("reducer::search_unused_parameters"):
                    made.quiet(us(walk))
            with made.span("Optimizer.step#SGD.step"):
                made.quiet(us(100))
    return replace(made.timeline(), settings={"ddp": told}, info=DeviceInfo(kind="cpu"))


TOLD = {
    "num_parameter_tensors": 1000,
    "mark_ns": 2_000.0,
    "made": "torch/nn/wrap.py(3): wrap;train.py(12): main",
}


def test_on_a_cpu_every_parameter_that_is_noted_costs_as_well():
    proof = judge_all(CAUSE, [watched(walk=500, told=TOLD)])
    assert proof.bucket == "compute"
    step = 10 * 800 + 500 + 100
    assert abs(proof.high - (500 + 1000 * 2.0) / step) < 0.02
    (place,) = proof.where
    assert (place.file, place.line, place.function) == ("train.py", 12, "main")


def test_without_a_search_nothing_is_noted():
    assert judge_all(CAUSE, [watched(walk=0, told=TOLD)]) is None


def test_a_search_that_finds_something_is_needed():
    told = {**TOLD, "unused_parameter_size": 64}
    assert judge_all(CAUSE, [watched(walk=500, told=told)]) is None
