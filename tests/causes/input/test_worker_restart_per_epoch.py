"""Starting workers is found where it starts processes and costs."""

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def job(starting: int, *, every: int = 3, processes: bool = True) -> Builder:
    made = Builder()
    for step in range(9):
        with made.step(), made.span("/home/u/train.py(20): main", "python_function"):
            if starting and step % every == every - 1:
                with made.span("torch/utils/data/dataloader.py(480): __iter__", "python_function"):
                    if processes:
                        made.python("multiprocessing/process.py(110): start", us(500))
                    made.quiet(starting)
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
    return made


def test_starts_that_recur_and_the_twin_with_kept_workers():
    proof = judge("worker-restart-per-epoch", job(ms(10)))
    assert proof is not None
    assert covers(proof, twin_speedup(job(ms(10)), job(0)), slack=0.03)
    assert proof.where[0].function == "main"


def test_a_start_seen_once_may_be_rare():
    proof = judge("worker-restart-per-epoch", job(ms(30), every=6))
    assert proof is not None
    assert proof.predicted.low == 1.0


def test_cheap_starts_and_iterators_without_workers():
    assert judge("worker-restart-per-epoch", job(us(50), every=9)) is None
    assert judge("worker-restart-per-epoch", job(ms(10), processes=False)) is None


PAIRS = {
    "worker-restart-per-epoch": Pair(
        sick=lambda: job(ms(10)), healthy=lambda: job(ms(10), processes=False)
    )
}
