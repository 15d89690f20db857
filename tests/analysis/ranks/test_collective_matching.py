"""The same collective on every rank: by order where recordings are whole, else by time."""

import time
from dataclasses import replace

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.collectives import kind_of
from whyidle.analysis.ranks.job import Job
from whyidle.model.timeline import Timeline
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet

GEMM = "ampere_sgemm_128x64_tn"


def fleet(count: int = 2, *, work=(1000, 1300, 1100, 1200), sizes=(10, 20, 30), **options) -> Fleet:
    made = Fleet(count, **options)
    for _ in range(5):
        with made.step():
            for size in sizes:
                for index, rank in enumerate(made.ranks):
                    rank.op("aten::mm", kernels=[(GEMM, us(work[index]))])
                made.collective(us(100 + size), elements=size * 1000)
                made.join()
            for rank in made.ranks:
                rank.sync()
    return made


def meet(timelines: list[Timeline]):
    return Job(tuple(Facts(timeline) for timeline in timelines)).meetings


def without_kernels(timeline: Timeline, rows: list[int]) -> Timeline:
    """Drop some collectives (by order), as a sampled recording does."""
    device = timeline.device
    mine = [i for i, n in enumerate(device.name) if "nccl" in timeline.names[n]]
    keep = np.setdiff1d(np.arange(len(device)), np.array(mine)[rows])
    return replace(timeline, device=device.take_rows(keep))


def test_whole_recordings_are_matched_by_order():
    met = meet(fleet().timelines())
    assert len(met) == 15
    assert met.present.all()
    assert set(met.kind) == {"all_reduce"}
    assert sorted(set(met.bytes.tolist())) == [40_000, 80_000, 120_000]
    assert met.notes == ()


def test_a_step_with_a_missing_collective_is_left_out():
    first, second = fleet().timelines()
    met = meet([first, without_kernels(second, [4])])
    assert len(met) == 12
    assert set(met.step[:, 0]) == {0, 2, 3, 4}


def test_sampled_recordings_are_matched_by_time():
    first, second = fleet(offsets_ns=(0, 700_000)).timelines()
    met = meet([without_kernels(first, [0, 4, 8, 10]), without_kernels(second, [2, 5, 6, 13])])
    assert len(met) == 7
    assert "by the time" in met.notes[0]
    assert met.clock_error_s >= 500e-6
    assert met.ahead[1] == pytest.approx(700_000, abs=met.clock_error_s * 1e9)


def test_recordings_that_share_only_some_steps_meet_in_those():
    first, second = fleet().timelines()
    names = tuple(
        name.replace("ProfilerStep#", "ProfilerStep#1") if name.endswith(("#1", "#2")) else name
        for name in second.names
    )
    met = meet([first, replace(second, names=names)])
    assert len(met) == 9


def test_other_jobs_do_not_meet():
    first = fleet(1).timelines()[0]
    other = fleet(1, sizes=(77, 88, 99)).timelines()[0]
    met = meet([first, other])
    assert len(met) == 0


def test_groups_are_matched_by_name():
    made = Fleet(4)
    for _ in range(5):
        with made.step():
            for index, rank in enumerate(made.ranks):
                rank.op("aten::mm", kernels=[(GEMM, us(1000 + 100 * index))])
            made.collective(us(100))
            for rank in made.ranks:
                rank.sync()
    timelines = []
    for index, timeline in enumerate(made.timelines()):
        pair = str(index // 2)
        details = tuple(
            replace(detail, group=pair) if detail.collective else detail
            for detail in timeline.details
        )
        timelines.append(replace(timeline, details=details))
    met = meet(timelines)
    assert len(met) == 10
    assert met.present.sum(axis=1).tolist() == [2] * 10
    assert met.clock_error_s < 10e-6
    assert met.late_ranks.sum(axis=0).tolist() == [0, 5, 0, 5]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "all_reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_half", "reduce_scatter"),
        ("_allgather_base", "all_gather"),
        ("nccl:all_to_all", "all_to_all"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send_recv"),
        ("gloo:broadcast", "broadcast"),
        ("something", "other"),
    ],
)
def test_kinds(name, kind):
    assert kind_of(name) == kind


def test_many_ranks_are_matched_quickly():
    """Eight ranks with two thousand collectives each: matching is a matter of arrays."""
    made = fleet(1, sizes=tuple(range(1, 41))).timelines()[0]
    ranks = tuple(Facts(replace(made, rank=rank)) for rank in range(8))
    for facts in ranks:
        assert len(facts.collectives) == 200
    begin = time.perf_counter()
    assert len(Job(ranks).meetings) == 200
    assert time.perf_counter() - begin < 1.0
