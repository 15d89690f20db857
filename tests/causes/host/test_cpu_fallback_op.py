import pytest

from whyidle.testing.builder import Builder, us
from whyidle.testing.jobs import healthy, synchronising
from whyidle.testing.twins import covers, judge, measured

CAUSE = "cpu-fallback-op"


def train(cpu: float, *, on_device: bool = False) -> Builder:
    job = Builder()
    for _ in range(5):
        with job.step():
            layers(job)
            if on_device:
                job.op("aten::linalg_eigh", kernels=[("syevj", us(40))])
            else:
                job.copy("d2h", 400_000, pinned=False)
                job.op("aten::linalg_eigh", host=us(cpu))
                job.copy("h2d", 400_000, pinned=False)
            layers(job)
    return job


def layers(job: Builder) -> None:
    for _ in range(20):
        job.op("aten::mm", kernels=[("gemm", us(60))], host=us(40))


@pytest.mark.parametrize("cpu", [500, 2000])
def test_the_prediction_covers_the_twin_on_the_device(cpu):
    sick = train(cpu)
    proof = judge(CAUSE, sick)
    assert proof
    assert "aten::linalg_eigh" in proof.headline
    assert covers(proof, measured(sick, train(0, on_device=True)))


def test_reading_scalars_is_another_cause():
    assert judge(CAUSE, synchronising()) is None


def test_the_next_batch_after_a_logged_scalar_is_another_step():
    job = Builder()
    for _ in range(5):
        with job.step():
            job.copy("h2d", 400_000, pinned=False)
            layers(job)
            job.item()
            job.op("aten::stack", host=us(100))
    assert judge(CAUSE, job) is None


def test_the_next_batch_after_results_were_read_is_no_fallback():
    job = Builder()
    for _ in range(5):
        with job.step():
            for _ in range(3):
                job.loader(us(200))
                job.copy("h2d", 400_000, pinned=False)
                layers(job)
                job.copy("d2h", 400_000, pinned=False)
                job.op("aten::argmax", host=us(100))
    assert judge(CAUSE, job) is None


def test_a_healthy_job_is_left_alone():
    assert judge(CAUSE, healthy()) is None
