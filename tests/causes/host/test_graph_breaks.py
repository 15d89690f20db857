from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "graph-breaks"


def train(pieces: int, *, eager: int = 20, same: bool = False) -> Builder:
    """``pieces`` compiled regions a step with eager operators between them."""
    job = Builder()
    for _ in range(4):
        with job.step():
            for piece in range(pieces):
                with job.span(f"Torch-Compiled Region: {0 if same else piece}/0", "cpu_op"):
                    job.launch("triton_poi_fused_0", us(30))
                for _ in range(eager if piece < pieces - 1 else 0):
                    job.op("aten::add", kernels=[("elementwise_kernel", us(3))], host=us(12))
            job.op("aten::mm", kernels=[("gemm", us(80))])
    return job


def test_the_prediction_covers_the_twin_in_one_piece():
    sick, cured = train(4), Builder()
    for _ in range(4):
        with cured.step():
            with cured.span("Torch-Compiled Region: 0/0", "cpu_op"):
                cured.launch("triton_poi_fused_0", us(4 * 30 + 60 * 3))
            cured.op("aten::mm", kernels=[("gemm", us(80))])
    proof = judge(CAUSE, sick)
    assert proof
    assert "4 compiled pieces" in proof.headline
    assert covers(proof, twin_speedup(sick, cured), slack=0.05)


def test_pieces_without_eager_code_between_them_cost_nothing():
    assert judge(CAUSE, train(4, eager=0)) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(4), healthy=lambda: train(4, same=True))}
