import pytest

from cured_twins import covers, judge, twin_speedup
from imagined_jobs import synchronizing_job
from watched_run import add_facts
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.testing import contracts
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

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
    proof = judge(CAUSE, synchronizing_job())
    assert proof
    assert "aten::item" in proof.headline
    assert proof.where[0].file == "train.py"
    assert proof.where[0].line == 31


def test_whether_single_numbers_are_all_that_is_read():
    assert judge(CAUSE, synchronizing_job()).facts.scalar is True
    mixed = Builder()
    for _ in range(5):
        with mixed.step():
            for layer in range(60):
                mixed.op("aten::mm", kernels=[("gemm", us(45))], host=us(40))
                if layer % 3 == 2:
                    mixed.item()
                elif layer % 3 == 1:
                    mixed.sync("cudaDeviceSynchronize")
    assert judge(CAUSE, mixed).facts.scalar is False


@pytest.mark.parametrize("every", [6, 20, 60])
@pytest.mark.parametrize(("host", "kernel"), [(40, 45), (20, 60), (60, 30)])
def test_the_prediction_covers_the_twin_without_reads(every, host, kernel):
    sick, cured = (train(every=n, host=host, kernel=kernel) for n in (every, 0))
    proof, speedup = judge(CAUSE, sick), twin_speedup(sick, cured)
    if proof is None:
        assert speedup < 1.02
    else:
        assert covers(proof, speedup, slack=0.03)


def test_what_recording_cost_is_left_out_where_it_was_measured():
    """Recorded, the host is the slower of the two, and reads seem to hold up less."""
    recorded, alone, cured = (train(every=n, host=h) for n, h in ((3, 70), (3, 50), (0, 50)))
    during, before = (Facts(each.timeline()).step_s for each in (recorded, alone))
    burst = {"burst": {"before_s": before, "during_s": during}}
    proof = contracts.run_cause(
        catalog.load_causes()[CAUSE], [add_facts(recorded.timeline(), burst)]
    )
    gain = twin_speedup(alone, cured)
    assert judge(CAUSE, recorded).predicted.speedup < 0.95 * gain
    assert proof.predicted.speedup == pytest.approx(gain, rel=0.05)


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


def fed(*, workers: int, making: float, read: bool, size: int = 1_000_000) -> Builder:
    """Ten steps of 10 ms of device work; a batch takes ``making`` us per worker."""
    job, ready = Builder(), 0
    for step in range(10):
        with job.step():
            ready = max(ready, job.now if not step else 0) + us(making / max(workers, 1))
            wait = max(ready - job.now, us(60)) if workers else us(making)
            job.loader(wait, workers=workers)
            job.copy("h2d", size)
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(500))])
            if read:
                job.item("train.py(31): log_loss;train.py(60): main")
    return job


def test_without_the_wait_a_loader_in_this_process_runs_beside_the_device():
    proof = judge(CAUSE, fed(workers=0, making=6_000, read=True))
    assert proof
    speedup = twin_speedup(
        fed(workers=0, making=6_000, read=True), fed(workers=0, making=6_000, read=False)
    )
    assert speedup > 1.4
    assert covers(proof, speedup, slack=0.06)  # the first batch of a recording has no device work


def test_without_the_wait_workers_make_batches_no_faster():
    slow = {"workers": 2, "making": 40_000.0}
    speedup = twin_speedup(fed(read=True, **slow), fed(read=False, **slow))
    proof = judge(CAUSE, fed(read=True, **slow))
    assert speedup < 1.05
    assert proof is None or covers(proof, speedup)


def test_a_checkpoint_needs_what_it_waits_for():
    job = Builder()
    for step in range(8):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(500))])
            if step % 2:
                with job.span("train.py(80): save_checkpoint", "python_function"):
                    job.sync()
                    job.quiet(us(30_000))
    assert judge(CAUSE, job) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(every=6), healthy=lambda: train(every=0))}
