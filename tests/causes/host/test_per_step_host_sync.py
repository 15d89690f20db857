import pytest

from whyidle.testing.builder import Builder, us
from whyidle.testing.jobs import healthy, synchronising
from whyidle.testing.twins import covers, judge, measured

CAUSE = "per-step-host-sync"


def train(*, every: int, host: float = 40, kernel: float = 45) -> Builder:
    """A scalar is read after ``every`` layers (0: never); host and device need about as long."""
    job = Builder()
    for _ in range(5):
        with job.step():
            for layer in range(60):
                job.op("aten::mm", kernels=[("gemm", us(kernel))], host=us(host))
                if every and layer % every == every - 1:
                    job.item("train.py(31): log_loss;train.py(60): main")
    return job


def test_a_scalar_read_after_every_layer_is_named_with_its_place():
    proof = judge(CAUSE, synchronising())
    assert proof
    assert "aten::item" in proof.headline
    assert proof.where[0].file == "train.py"
    assert proof.where[0].line == 31


@pytest.mark.parametrize("every", [6, 20, 60])
@pytest.mark.parametrize(("host", "kernel"), [(40, 45), (20, 60), (60, 30)])
def test_the_prediction_covers_the_twin_without_reads(every, host, kernel):
    sick, cured = (train(every=n, host=host, kernel=kernel) for n in (every, 0))
    proof, speedup = judge(CAUSE, sick), measured(sick, cured)
    if proof is None:
        assert speedup < 1.02
    else:
        assert covers(proof, speedup, slack=0.03)


def test_a_long_wait_beside_a_busy_device_is_harmless():
    """The host is far ahead and reads one scalar: it waits long, and nobody waits for it."""
    job = Builder()
    for _ in range(5):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(2000))], host=us(6))
            job.item()
    proof = judge(CAUSE, job)
    assert proof is None or 1 - 1 / proof.predicted.high < 0.03


def test_the_synchronisation_that_ends_a_recording_is_none():
    job = train(every=0, host=10, kernel=100)
    with job.step():
        job.op("aten::mm", kernels=[("gemm", us(4000))])
        job.sync("cudaDeviceSynchronize")
        job.quiet(us(900))
    assert judge(CAUSE, job) is None


def test_a_wait_for_the_next_batch_is_another_cause():
    job = Builder()
    for _ in range(5):
        with job.step():
            job.copy("h2d", 4_000_000, pinned=False)
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(60))], host=us(40))
    assert judge(CAUSE, job) is None


def test_a_healthy_job_is_left_alone():
    assert judge(CAUSE, healthy()) is None
