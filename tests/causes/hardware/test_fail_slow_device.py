"""The same kernels, slower on one device: proven by names, numbers and grids."""

from dataclasses import replace

import numpy as np
import pytest

from cured_twins import covers, judge_all
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.model.proof_facts import HardwareFacts
from whyidle.model.timeline import CpuPace
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet, Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
ADD = "vectorized_elementwise_kernel"
CAUSE = "fail-slow-device"


def fleet(slow: float, *, grids: bool = True, wider: float = 1.0) -> Fleet:
    """Three ranks; rank 1 takes ``slow`` times as long for kernels with ``wider`` grids."""
    made = Fleet(3)
    for _ in range(6):
        with made.step():
            for index, rank in enumerate(made.ranks):
                late = index == 1
                for kernel, took, blocks in ((GEMM, 400, 8.0), (ADD, 60, 2.0)) * 8:
                    told = {"blocks per SM": blocks * (wider if late else 1.0)} if grids else {}
                    with rank.span("aten::mm", "cpu_op"):
                        rank.quiet(us(6))
                        rank.launch(kernel, us(took * (slow if late else 1.0)), **told)
            made.collective(us(300))
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return made


def step_s(made: Fleet) -> float:
    return Facts(made.timelines()[0]).step_s


def test_a_slow_device():
    sick = fleet(1.25)
    proof = judge_all(CAUSE, sick.timelines())
    assert proof.facts.rank == 1
    assert "rank 1 takes 25% longer" in proof.headline
    assert judge_all("rank-workload-imbalance", sick.timelines()) is None
    assert covers(proof, step_s(sick) / step_s(fleet(1.0)))
    plan = catalog.load_fixes()["replace-slow-device"].decide(proof)
    assert "rank 1" in plan.summary


def test_wider_grids_are_more_work():
    timelines = fleet(1.25, wider=1.25).timelines()
    assert judge_all(CAUSE, timelines) is None
    assert judge_all("rank-workload-imbalance", timelines) is not None


def test_without_grids_nobody_can_tell():
    timelines = fleet(1.25, grids=False).timelines()
    assert judge_all(CAUSE, timelines) is None
    assert judge_all("rank-workload-imbalance", timelines) is not None


def test_good_devices_scatter():
    assert judge_all(CAUSE, fleet(1.03).timelines()) is None


def paced(made: Fleet, *, queued_us: float, ran_us: float = 0):
    """The same ranks as on a CPU, where the kernel counts what each thread ran and waited for a
    core; rank 1 does so much more of both in every step."""
    found = []
    for index, timeline in enumerate(made.timelines()):
        ends = Facts(timeline).steps.end.astype(np.int64)
        rounds = np.arange(1, len(ends) + 1)
        late = index == 1
        ran, queued = 3_000_000 + 1000 * ran_us * late, 50_000 + 1000 * queued_us * late
        pace = CpuPace(ends, (rounds * ran).astype(np.int64), (rounds * queued).astype(np.int64))
        found.append(replace(timeline, pace=pace))
    return found


LATE_US = 0.25 * 8 * (400 + 60)
"""what rank 1 of ``fleet(1.25)`` takes longer per step"""


def test_a_rank_that_waits_for_a_core_is_slow_and_has_no_more_work():
    timelines = paced(fleet(1.25, grids=False), queued_us=LATE_US)
    proof = judge_all(CAUSE, timelines)
    assert proof.facts == HardwareFacts(rank=1, cpu=True)
    assert "Rank 1 waits 0.97 ms of each step for a CPU core" in proof.headline
    assert proof.where[0].rank == 1
    assert judge_all("rank-workload-imbalance", timelines) is None
    assert judge_all("late-rank", timelines) is None
    told = {each.quantity: each.value for each in proof.evidence}
    assert told["rank 1 runs, per step"] == told["rank 0 runs, per step"]
    plan = catalog.load_fixes()["replace-slow-device"].decide(proof)
    assert "its own cores" in plan.summary


def test_a_rank_that_runs_longer_has_more_work_as_far_as_can_be_told():
    timelines = paced(fleet(1.25, grids=False), queued_us=0, ran_us=LATE_US)
    assert judge_all(CAUSE, timelines) is None
    proof = judge_all("rank-workload-imbalance", timelines)
    assert proof.facts.rank == 1
    uncounted = judge_all("rank-workload-imbalance", fleet(1.25, grids=False).timelines())
    assert proof.high == uncounted.high
    said = (proof.predicted.speedup, uncounted.predicted.speedup, proof.predicted.high)
    likely, low, high = (1 - 1 / speedup for speedup in said)
    busy = (len(timelines) - 1 / 0.825) / (len(timelines) - 1)  # all cores at once, at 82.5 %
    assert likely == pytest.approx(busy * (low + high) / 2, rel=0.01)
    assert 1.0 < proof.predicted.low < uncounted.predicted.low  # dealt evenly, it shares cores


def test_what_a_rank_waits_for_a_core_is_none_of_its_work():
    whole = judge_all("rank-workload-imbalance", fleet(1.25, grids=False).timelines())
    timelines = paced(fleet(1.25, grids=False), queued_us=LATE_US * 0.4, ran_us=LATE_US * 0.6)
    part = judge_all("rank-workload-imbalance", timelines)
    assert 0.5 * whole.high < part.high < 0.7 * whole.high


def test_ranks_that_take_turns_waiting_for_a_core_are_a_note_and_no_finding():
    made = fleet(1.25, grids=False).timelines()
    facts = [Facts(timeline) for timeline in made]
    rounds = len(facts[0].steps.end)
    found = []
    for index, timeline in enumerate(made):
        mine = np.where(np.arange(rounds) % 3 == index, 1_000_000, 20_000)
        ends = facts[index].steps.end.astype(np.int64)
        ran = np.arange(1, rounds + 1) * 3_000_000
        found.append(replace(timeline, pace=CpuPace(ends, ran, np.cumsum(mine))))
    paces = Job(tuple(Facts(timeline) for timeline in found)).imbalance.paces
    ran, queued = paces.excess_of(None)
    assert abs(ran) < 1e-9
    assert 0.9e-3 < queued < 1.3e-3
    assert abs(paces.excess_of(1)[1]) < 0.5e-3


def test_without_a_count_of_every_rank_nothing_is_said_of_cores():
    timelines = paced(fleet(1.25, grids=False), queued_us=LATE_US)
    timelines[0] = replace(timelines[0], pace=None)
    assert judge_all(CAUSE, timelines) is None


PAIRS = {CAUSE: Pair(sick=lambda: fleet(1.25), healthy=lambda: fleet(1.25, wider=1.25))}
