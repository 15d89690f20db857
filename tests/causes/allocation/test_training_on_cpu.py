"""Operators that exist only on the CPU prove where the work runs."""

from cured_twins import judge
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Pair


def job(op: str, *, kernels: bool = False, host: int = ms(4)) -> Builder:
    made = Builder()
    for _ in range(4):
        with made.step():
            launched = [("ampere_sgemm_128x64_tn", us(900))] if kernels else []
            for _ in range(5):
                made.op(op, host=host, kernels=launched)
    return made


def test_cpu_convolutions_beside_an_idle_gpu():
    proof = judge("training-on-cpu", job("aten::mkldnn_convolution"))
    assert proof is not None
    assert "A100" in proof.headline


def test_a_recording_of_the_host_alone_proves_nothing():
    assert judge("training-on-cpu", job("aten::convolution")) is None


def test_matrix_products_that_are_no_launches_run_on_the_cpu():
    assert judge("training-on-cpu", job("aten::addmm", host=ms(400))) is not None
    queued = Builder()  # behind a full queue some calls are long
    for _ in range(4):
        with queued.step():
            for host in (us(12), ms(400), ms(400)):
                queued.op("aten::addmm", host=host)
    assert judge("training-on-cpu", queued) is None
    assert judge("training-on-cpu", job("aten::add", host=ms(400))) is None


CONVOLUTION = "aten::mkldnn_convolution"
PAIRS = {
    "training-on-cpu": Pair(
        sick=lambda: job(CONVOLUTION), healthy=lambda: job(CONVOLUTION, kernels=True)
    )
}
