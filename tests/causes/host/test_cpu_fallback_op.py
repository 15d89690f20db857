import pytest

from cured_twins import covers, judge, twin_speedup
from imagined_jobs import synchronizing_job
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

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
    assert covers(proof, twin_speedup(sick, train(0, on_device=True)))


def test_reading_scalars_is_another_cause():
    assert judge(CAUSE, synchronizing_job()) is None


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


def outside(*, back: int = 400_000, forth: int = 400_000, work: int = 800) -> Builder:
    """NumPy between two copies: no operator, nothing recorded."""
    job = Builder()
    for _ in range(5):
        with job.step():
            layers(job)
            job.copy("d2h", back, pinned=False)
            job.quiet(us(work))
            job.copy("h2d", forth, pinned=False)
            layers(job)
    return job


@pytest.mark.parametrize("forth", [50_000, 400_000, 3_200_000])
def test_what_numpy_does_between_the_copies_is_found_by_what_goes_forth(forth):
    sick = outside(forth=forth)
    proof = judge(CAUSE, sick)
    assert proof
    assert proof.headline.startswith("Code outside PyTorch")
    assert covers(proof, twin_speedup(sick, train(0, on_device=True)))


@pytest.mark.parametrize("sizes", [(4, 400_000), (400_000, 4), (400_000, 40_000_000)])
def test_copies_of_other_sizes_have_nothing_to_do_with_each_other(sizes):
    assert judge(CAUSE, outside(back=sizes[0], forth=sizes[1])) is None


def test_a_host_that_is_ahead_passes_its_steps_before_its_device_does():
    """The copy back ends in the device's next step, the copy forth follows it."""
    job = Builder()
    for _ in range(5):
        with job.step():
            job.op("aten::mm", kernels=[("gemm", us(100))])
            job.copy("d2h", 400_000, pinned=False)
            job.quiet(us(800))
            job.copy("h2d", 400_000, pinned=False)
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(300))])
    proof = judge(CAUSE, job)
    assert proof
    assert proof.evidence[0].value == pytest.approx(1.0)


@pytest.mark.parametrize(("size", "bucket"), [(4_000, "sync"), (40_000_000, "transfer")])
def test_its_bucket_is_where_its_time_lies(size, bucket):
    proof = judge(CAUSE, outside(back=size, forth=size))
    assert proof
    assert proof.bucket == bucket


def test_how_batches_are_sent_does_nothing_for_a_detour():
    job = outside(back=8_000_000, forth=8_000_000)
    assert judge(CAUSE, job)
    assert judge("pageable-h2d-copy", job) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(2000), healthy=lambda: outside(work=5))}
