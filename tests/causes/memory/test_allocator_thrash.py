from cured_twins import covers, judge, twin_speedup
from imagined_jobs import allocating_job
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "allocator-thrash"


def train(*, every: int, emptied: bool = False) -> Builder:
    job = Builder()
    for step in range(6):
        with job.step():
            for _ in range(4):
                for _ in range(8):
                    job.op("aten::mm", kernels=[("gemm", us(60))], host=us(30))
                if every and step % every == 0:
                    thrash(job, emptied)
    return job


def thrash(job: Builder, emptied: bool) -> None:
    if emptied:
        mine = job.span("train.py(70): clear", "python_function")
        with mine, job.span("torch/cuda/memory.py(160): empty_cache", "python_function"):
            job.sync("cudaDeviceSynchronize")
            job.runtime("cudaFree", us(300))
    else:
        job.sync("cudaDeviceSynchronize")
        job.runtime("cudaFree", us(300))
    job.runtime("cudaMalloc", us(400))


def test_a_job_that_allocates_in_every_step():
    proof = judge(CAUSE, allocating_job())
    assert proof
    assert proof.high > 0.2
    assert proof.facts.emptied is False


def test_the_prediction_covers_the_twin():
    sick = train(every=1)
    proof = judge(CAUSE, sick)
    assert proof
    assert covers(proof, twin_speedup(sick, train(every=0)))


def test_an_emptied_cache_is_named_with_its_place():
    proof = judge(CAUSE, train(every=1, emptied=True))
    assert proof
    assert proof.facts.emptied is True
    assert "empties the cache" in proof.headline
    assert proof.where[0].function == "clear"


def test_of_a_burst_its_run_tells_that_the_cache_is_emptied():
    """A burst holds operators and calls of the runtime, and no Python."""
    burst, live = Facts(train(every=1).timeline()), Facts(train_watched().timeline())
    burst.live = live
    proof = catalog.load_causes()[CAUSE].test(burst)
    assert proof.facts.emptied is True
    assert proof.where[0].function == "clear"
    told_per_step = {row.quantity: row.value for row in proof.evidence}
    assert told_per_step["calls that empty the cache, per step"] == 1.0


def test_a_cache_that_is_emptied_once_an_epoch_is_not_what_steps_allocate_for():
    burst, live = Facts(train(every=1).timeline()), Facts(train_watched(every=20).timeline())
    burst.live = live
    proof = catalog.load_causes()[CAUSE].test(burst)
    assert proof.facts.emptied is False
    assert "emptied" not in proof.headline


def train_watched(every: int = 1) -> Builder:
    """What the probe says of such a job."""
    job = Builder()
    for step in range(6 * every):
        with job.step():
            job.op("aten::mm", kernels=[("gemm", us(500))], host=us(300))
            if step % every:
                continue
            mine = job.span("train.py(70): clear", "python_function")
            with mine, job.span("torch.cuda: empty_cache", "python_function"):
                job.sync("cudaDeviceSynchronize")
    return job


def test_now_and_then_is_no_thrash():
    job = train(every=0)
    with job.step():
        job.runtime("cudaMalloc", us(400))
    assert judge(CAUSE, job) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(every=1), healthy=lambda: train(every=0))}
