"""One process that launches for several devices is found; model parallelism is not it."""

from cured_twins import judge
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
CAUSE = "dataparallel-instead-of-ddp"


def job(devices: int, *, marks: bool = True, layer: float = 20) -> Builder:
    """Every replica's layers are launched in turn by one interpreter."""
    made = Builder()
    for _ in range(5):
        with made.step():
            if marks:
                with made.span("DataParallel.forward"), made.span("Scatter", "cpu_op"):
                    made.quiet(us(100))
                with made.span("Broadcast", "cpu_op"):
                    made.quiet(us(300))
            for _ in range(40):
                for device in range(devices):
                    with made.span("aten::mm", "cpu_op"):
                        made.quiet(us(15))
                        made.launch(GEMM, us(layer), stream=7 + device, device=device)
            made.optimizer([("multi_tensor_apply_kernel", us(50))])
            made.sync()
    return made


def test_replicas_launched_in_turn():
    proof = judge(CAUSE, job(4))
    assert proof is not None
    assert proof.facts.devices == 4
    assert proof.high > 0.3


def test_one_device_is_not_data_parallel():
    assert judge(CAUSE, job(1)) is None


def test_replicas_that_are_busy_lose_little():
    proof = judge(CAUSE, job(2, layer=3_000))
    assert proof is None or proof.high < 0.03


PAIRS = {CAUSE: Pair(sick=lambda: job(4), healthy=lambda: job(4, marks=False))}
