import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.testing.builder import LAUNCH_NS, Builder, us


def job(*, host: int, kernel: int, pause: int = 0) -> Facts:
    made = Builder()
    for _ in range(4):
        with made.step():
            for _ in range(30):
                made.op("aten::mm", kernels=[("gemm", kernel)], host=host)
            if pause:
                made.python("train.py(9): metrics", pause)
    return Facts(made.timeline())


def test_a_slow_host_finds_the_queue_empty():
    launching = job(host=us(50), kernel=us(5)).kernel_launching
    assert launching.per_step == 30
    assert launching.starved_share == 1.0
    assert launching.blocking_share == 0.0
    assert launching.call_s == pytest.approx(5e-6)
    assert launching.delay_s == pytest.approx(9e-6)


def test_a_slow_device_has_a_full_queue():
    facts = job(host=us(5), kernel=us(200))
    assert facts.kernel_launching.starved_share < 0.1
    assert facts.kernel_launching.delay_s > 1e-3
    middle = facts.scope.start[0] + facts.scope.total // 3
    assert facts.kernel_launching.queue_depth(np.array([middle]))[0] > 5


def test_depth_counts_launched_and_unfinished_kernels():
    made = Builder()
    for _ in range(3):
        made.launch("gemm", us(100))
    facts = Facts(made.timeline())
    assert facts.kernel_launching.queue_depth(facts.device.end - 1).tolist() == [3, 2, 1]
    assert facts.kernel_launching.queue_depth(facts.device.end + 1).tolist() == [2, 1, 0]


def test_only_long_stretches_without_operators_are_pauses():
    assert not len(job(host=us(20), kernel=us(5), pause=us(100)).kernel_launching.pauses)
    facts = job(host=us(20), kernel=us(5), pause=us(900))
    assert facts.kernel_launching.pauses.total / facts.step_count == pytest.approx(
        us(900), rel=0.05
    )
    assert not (facts.kernel_launching.pauses & facts.kernel_launching.dispatch_time).total


def test_without_launches_there_is_nothing_to_say():
    made = Builder()
    with made.step():
        made.quiet(us(500))
    launching = Facts(made.timeline()).kernel_launching
    assert launching.starved_share == 0.0
    assert launching.blocking_share == 0.0
    assert np.isnan(launching.call_s)
    assert np.isnan(launching.delay_s)


class Queue(Builder):
    """A runtime that takes 1023 launches and blocks until the device has ended the oldest."""

    ends: list[int]

    def launch(self, name, duration, *, stream=7, **args):
        correlation, begin = self._next(), self.now
        room = self.ends[-1023] if len(self.ends) >= 1023 else 0
        blocked = max(LAUNCH_NS, room - begin)
        self.runtime("cudaLaunchKernel", blocked, correlation)
        launched = begin + blocked - LAUNCH_NS
        told = {"stream": stream, "correlation": correlation, "args": args}
        self.ends.append(self._device("kernel", name, launched, duration, **told))


def queued(kernel):
    built = Queue()
    built.ends = []
    for _ in range(3):
        with built.step():
            for _ in range(1200):
                built.op("aten::mm", kernels=[("gemm", kernel)], host=us(2))
    return Facts(built.timeline())


def test_a_host_blocked_by_a_full_queue_is_not_the_bottleneck():
    slow, fast = queued(us(80)), queued(us(40))
    assert len(slow.replay.waits) > 100
    predicted = (
        slow.replay.replayed_length(factor=np.full(len(slow.device), 0.5)) / slow.replay.base_ns
    )
    assert predicted == pytest.approx(fast.scope_s / slow.scope_s, abs=0.05)
