import pytest

from cured_twins import judge
from imagined_jobs import launch_bound
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GB = 1 << 30


def train(used: list[int], *, kernel: float = 5) -> Builder:
    """One allocator event per step, with so many bytes in use."""
    job = Builder(memory_bytes=80 * GB)
    for size in used:
        with job.step():
            for _ in range(50):
                job.op("aten::add", kernels=[("elementwise_kernel", us(kernel))], host=us(15))
            job.memory(size, 78 * GB)
    return job


def test_memory_that_grows_with_every_step():
    job = train([(20 + 2 * i) * GB for i in range(8)])
    proof = judge("memory-leak-growth", job)
    assert proof
    assert {e.quantity: e.value for e in proof.evidence}["steps until memory is full"] == (
        pytest.approx(23, abs=1)
    )


def test_a_leak_costs_nothing_yet_and_is_told():
    diagnosis = diagnose_job([train([(20 + 2 * i) * GB for i in range(8)]).timeline()])
    leak = next(f for f in diagnosis.findings if f.cause == "memory-leak-growth")
    assert leak.severity == "info"
    assert leak.lost.high == 0.0


@pytest.mark.parametrize(
    "used",
    [
        [20 * GB] * 8,
        [(20 + 2 * (i % 2)) * GB for i in range(8)],
        [20 * GB, 40 * GB] + [40 * GB] * 6,
        [(20 + 2 * i) * GB for i in range(3)],
    ],
    ids=["level", "up and down", "once", "too few steps"],
)
def test_memory_that_does_not_leak(used):
    assert judge("memory-leak-growth", train(used)) is None


def test_a_device_whose_memory_was_not_recorded():
    facts = Facts(launch_bound().timeline())
    assert not len(facts.timeline.memory.time)
    assert catalog.load_causes()["memory-leak-growth"].test(facts) is None


def test_full_memory_keeps_the_batch_small():
    proof = judge("memory-capacity-bound", train([76 * GB] * 6))
    assert proof
    assert proof.predicted.speedup == 1.0
    assert proof.predicted.high > 1.2


def test_full_memory_beside_a_busy_device_is_well_used():
    assert judge("memory-capacity-bound", train([76 * GB] * 6, kernel=200)) is None


PAIRS = {
    "memory-leak-growth": Pair(
        sick=lambda: train([(20 + 2 * i) * GB for i in range(8)]),
        healthy=lambda: train([20 * GB] + [40 * GB] * 7),
    ),
    "memory-capacity-bound": Pair(
        sick=lambda: train([76 * GB] * 6), healthy=lambda: train([30 * GB] * 6)
    ),
}
