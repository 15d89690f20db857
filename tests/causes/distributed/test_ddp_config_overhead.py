"""Copies out of buckets and walks of the graph are found where the device waits for them."""

from dataclasses import replace

from cured_twins import covers, judge, judge_all, twin_speedup
from watched_run import add_facts
from whyidle import catalog
from whyidle.model.timeline import DeviceInfo, Timeline
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
COPY = "at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"
CAUSE = "ddp-config-overhead"
FIXES = ("ddp-bucket-view", "ddp-find-unused-off", "ddp-static-graph")
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


def proposed(proof):
    every = {name: catalog.load_fixes()[name] for name in FIXES}
    return {name: plan for name, each in every.items() if (plan := each.decide(proof))}


def test_copies_out_of_buckets():
    proof = judge(CAUSE, job(copies=80))
    assert proof is not None
    assert covers(proof, twin_speedup(job(copies=80), job()))
    plan = proposed(proof)
    assert set(plan) == {"ddp-bucket-view"}
    assert [edit.knob for edit in plan["ddp-bucket-view"].edits] == ["ddp.gradient_as_bucket_view"]


def test_walks_for_unused_parameters():
    proof = judge(CAUSE, job(walk=600))
    assert proof is not None
    assert covers(proof, twin_speedup(job(walk=600), job()))
    plan = proposed(proof)
    assert set(plan) == {"ddp-find-unused-off", "ddp-static-graph"}


def test_each_fix_promises_its_own_part():
    proof = judge(CAUSE, job(copies=80, walk=600))
    plan = proposed(proof)
    view, off = plan["ddp-bucket-view"].predicted, plan["ddp-find-unused-off"].predicted
    assert 1 < view.speedup < proof.predicted.speedup
    assert 1 < off.speedup < proof.predicted.speedup
    assert covers(
        replace(proof, predicted=view), twin_speedup(job(copies=80, walk=600), job(walk=600))
    )


def test_a_device_with_enough_to_do_does_not_notice():
    proof = judge(CAUSE, job(copies=80, walk=600, layer=400))
    assert proof is None or proof.high < 0.03


def watched(*, walk: float, told: dict[str, object], waits: tuple[float, ...] = ()) -> Timeline:
    """A rank whose device is the CPU, as the probe records it."""
    made = Builder(rank=0, world_size=2)
    for number in range(6):
        with made.step():
            for _ in range(10):
                with made.span("aten::mm", "cpu_op"):
                    made.quiet(us(800))
            if walk:
                with made.span("reducer::search_unused_parameters"):
                    made.quiet(us(walk))
            if waits:
                with made.span("gloo:all_reduce"):
                    made.quiet(us(waits[number]))
            with made.span("Optimizer.step#SGD.step"):
                made.quiet(us(100))
    return add_facts(replace(made.timeline(), info=DeviceInfo(kind="cpu")), {"ddp": told})


TOLD = {
    "num_parameter_tensors": 1000,
    "made": "torch/nn/wrap.py(3): wrap;train.py(12): main",
}


def test_nobody_is_told_to_fix_the_graph_where_all_is_used():
    proof = judge_all(CAUSE, [watched(walk=500, told={**TOLD, "unused_parameter_size": 0})])
    plan = proposed(proof)
    assert set(plan) == {"ddp-find-unused-off"}


def test_without_a_search_nothing_is_noted():
    assert judge_all(CAUSE, [watched(walk=0, told=TOLD)]) is None


def test_a_search_that_finds_something_is_needed():
    told = {**TOLD, "unused_parameter_size": 64}
    assert judge_all(CAUSE, [watched(walk=500, told=told)]) is None


def test_it_is_needed_once_where_it_always_finds_the_same():
    told = {**TOLD, "unused_parameter_size": 64, "unused_readings": 2, "unused_varies": False}
    plan = proposed(judge_all(CAUSE, [watched(walk=500, told=told)]))
    assert set(plan) == {"ddp-static-graph"}
    varies = {**told, "unused_varies": True}
    assert judge_all(CAUSE, [watched(walk=500, told=varies)]) is None


PAIRS = {CAUSE: Pair(sick=lambda: job(copies=80), healthy=job)}
