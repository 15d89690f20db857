"""Two real processes that train together on the CPU: the slow one is named, not the waiting one."""

import time
from functools import partial
from pathlib import Path

import pytest

from whyidle.recordings.explain import explain_paths

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

pytestmark = pytest.mark.real_processes("two processes train, and one is slow by the clock")
SLOW_S = 0.12


def train(rank: int, folder: str) -> None:
    """In each process: two jobs, in which rank 1 (more work) and rank 0 (asleep) is slow."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    big = torch.randn(256, 256)
    for name, slow in (("works", 1), ("sleeps", 0)):
        wait = partial(delay, name if rank == slow else "", big)
        record(f"{folder}/{name}.rank{rank}.json", wait)
    torch.distributed.destroy_process_group()


def delay(name: str, big) -> None:
    begin = time.perf_counter()
    while name == "works" and time.perf_counter() - begin < SLOW_S:
        torch.mm(big, big)
    if name == "sleeps":
        time.sleep(SLOW_S)


def record(path: str, delayed) -> None:
    layers = [torch.nn.Linear(64, 64) for _ in range(3)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(16, 64)
    plan = torch.profiler.schedule(wait=1, warmup=1, active=4)
    with torch.profiler.profile(schedule=plan) as profiler:
        for _ in range(6):
            delayed()
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()
            profiler.step()
    profiler.export_chrome_trace(path)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(train, args=(str(folder),), nprocs=2)
    return folder


@pytest.mark.parametrize(
    ("name", "slow", "cause"),
    [("works", 1, "rank-workload-imbalance"), ("sleeps", 0, "late-rank")],
)
def test_the_slow_rank_is_named(recorded, name, slow, cause):
    paths = sorted(recorded.glob(f"{name}.rank*.json"))
    diagnosis = explain_paths(paths).diagnosis
    assert diagnosis.verdict.bound == "communication"
    first = diagnosis.findings[0]
    assert first.cause == cause
    assert first.where[0].rank == slow
    rows = diagnosis.detail.ranks
    assert rows[slow].lateness_s > 0.5 * SLOW_S
    assert rows[1 - slow].lateness_s < 0.2 * SLOW_S
    assert rows[1 - slow].waiting > 0.4
    assert diagnosis.coverage.clock_error_s < 0.5 * SLOW_S
    assert diagnosis.run.ranks == 2


def test_one_of_the_two_alone_does_not_tell(recorded):
    diagnosis = explain_paths([recorded / "works.rank0.json"]).diagnosis
    assert diagnosis.attribution.communication > 0.5
    assert "waits for the network and the other ranks" in diagnosis.verdict.headline
    assert "only rank 0 of 2" in "\n".join(diagnosis.coverage.notes)
    assert diagnosis.detail.ranks[0].lateness_s is None
