"""One exchange of gradients per micro-batch is found; one per optimizer step is not."""

from cured_twins import covers, judge, twin_speedup
from whyidle import catalog
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
CAUSE = "allreduce-every-microstep"


def job(micro: int, *, exchanges: int | None = None, optimizers: int = 1) -> Builder:
    """``micro`` micro-batches per optimizer step; the last ``exchanges`` are exchanged."""
    made = Builder(rank=0, world_size=2)
    wanted = micro if exchanges is None else exchanges
    for _ in range(5):
        with made.step():
            for index in range(micro):
                with made.span("DistributedDataParallel.forward"):
                    made.op("aten::mm", kernels=[(GEMM, us(600))])
                made.op("aten::mm_backward", kernels=[(GEMM, us(1_200))])
                if index >= micro - wanted:
                    for _ in range(3):
                        with made.span("c10d::allreduce_", "cpu_op"):
                            made.collective(us(200))
                    made.join()
            for number in range(optimizers):
                kernels = [("multi_tensor_apply_kernel", us(50))]
                made.optimizer(kernels, name=f"Adam{number or ''}")
    return made


def test_four_exchanges_for_one_step():
    proof = judge(CAUSE, job(4))
    assert proof is not None
    assert proof.facts.micro_batches == 4
    assert covers(proof, twin_speedup(job(4), job(4, exchanges=1)))
    plan = catalog.load_fixes()["no-sync-accumulation"].decide(proof)
    assert "first 3 of 4" in plan.summary


def test_no_accumulation_no_finding():
    assert judge(CAUSE, job(1)) is None


def test_two_optimizers_per_step_are_one_step():
    assert judge(CAUSE, job(1, optimizers=2)) is None
    proof = judge(CAUSE, job(3, optimizers=2))
    assert proof.facts.micro_batches == 3


def test_two_models_that_take_turns_are_not_accumulation():
    made = Builder(rank=0, world_size=2)
    for _ in range(4):
        with made.step():
            for _ in range(2):
                with made.span("DistributedDataParallel.forward"):
                    made.op("aten::mm", kernels=[(GEMM, us(600))])
                with made.span("c10d::allreduce_", "cpu_op"):
                    made.collective(us(200))
                made.join()
                made.optimizer([("multi_tensor_apply_kernel", us(50))])
    assert judge(CAUSE, made) is None


def test_what_accumulation_does_not_need_is_not_lost_twice():
    needless = judge(CAUSE, job(4))
    exposed = judge("exposed-gradient-comm", job(4))
    assert needless.high > 2 * exposed.high


PAIRS = {CAUSE: Pair(sick=lambda: job(4), healthy=lambda: job(4, exchanges=1))}
