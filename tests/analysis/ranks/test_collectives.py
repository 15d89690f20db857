"""What a recording says of its collectives, in old and new traces, on devices and CPUs."""

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.testing.builder import Builder, ms, us

GEMM = "ampere_sgemm_128x64_tn"
ALL_REDUCE = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
SEND_RECV = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"


def facts(program, steps: int = 3) -> Facts:
    job = Builder(rank=0, world_size=2)
    for _ in range(steps):
        with job.step():
            job.op("aten::mm", kernels=[(GEMM, us(500))])
            program(job)
            job.sync()
    return Facts(job.timeline())


def old(job: Builder, span: str, kernel: str, **shapes) -> None:
    """As before 2024: the kernel says nothing, the span around its launch says a little."""
    with job.span(span, **shapes):
        job.launch(kernel, us(50), stream=20)


def test_new_traces_tell_kind_size_and_group():
    found = facts(lambda job: job.collective(us(100), elements=5_000)).collectives
    assert found.kind.tolist() == ["all_reduce"] * 3
    assert found.bytes.tolist() == [20_000] * 3
    assert found.group.tolist() == ["0"] * 3
    assert found.group_size.tolist() == [2] * 3
    assert found.step.tolist() == [0, 1, 2]


def test_old_traces_tell_it_by_the_span_around_the_launch():
    shapes = {"Input Dims": [[300, 10]], "Input type": ["c10::Half"]}
    found = facts(lambda job: old(job, "nccl:all_to_all", SEND_RECV, **shapes)).collectives
    assert found.kind.tolist() == ["all_to_all"] * 3
    assert found.elements.tolist() == [3_000] * 3
    assert found.bytes.tolist() == [6_000] * 3


def test_sending_from_rank_to_rank_is_no_meeting_of_all():
    found = facts(lambda job: old(job, "nccl:send", SEND_RECV)).collectives
    assert found.kind.tolist() == ["point_to_point"] * 3
    assert found.bytes.tolist() == [-1] * 3


def test_lanes_are_numbered_by_first_use():
    def two(job: Builder) -> None:
        job.collective(us(50), stream=40)
        job.collective(us(50), stream=30)

    assert facts(two).collectives.lane.tolist() == [0, 1] * 3


def test_without_launch_links_the_kernel_name_decides():
    job = Builder()
    with job.step():
        job.op("aten::mm", kernels=[(GEMM, us(500))])
        old(job, "nccl:all_reduce", ALL_REDUCE)
    for event in job.events:
        event["args"].pop("correlation", None)
    assert Facts(job.timeline()).collectives.kind.tolist() == ["all_reduce"]


@pytest.mark.parametrize("dims", [[[]], "broken", [[2, [3]]], [["x"]], [[-1, 4]], None])
def test_odd_shapes_are_survived(dims):
    shapes = {"Input Dims": dims, "Input type": [None]}
    found = facts(lambda job: old(job, "nccl:all_reduce", ALL_REDUCE, **shapes)).collectives
    assert len(found) == 3
    assert (found.bytes == -1).all()


def on_cpu() -> Facts:
    job = Builder(rank=0, world_size=2)
    del job._header["deviceProperties"]
    job._header["distributedInfo"]["backend"] = "gloo"
    for _ in range(4):
        with job.step():
            job.op("aten::mm", host=us(1_000))
            begin = job.now
            with job.thread(7):  # gloo's own thread: from call to completion
                job._host("user_annotation", "gloo:all_reduce", begin, begin + us(900), {})
            job.op("aten::mm", host=us(300))
            job.quiet(us(600))
            job.op("aten::add_", host=us(100))
    return Facts(job.timeline())


def test_on_a_cpu_a_collective_in_flight_with_no_operator_is_exposed():
    found = on_cpu()
    assert found.collectives.kind.tolist() == ["all_reduce"] * 4
    step = 1_000 + 300 + 600 + 100
    assert found.bucket_share("collective") == pytest.approx(600 / step, abs=0.01)
    assert found.bucket_share("compute") == pytest.approx(1_400 / step, abs=0.01)
    assert found.held_up.total == pytest.approx(4 * us(600), rel=0.01)


def test_no_collectives():
    found = facts(lambda job: job.quiet(us(1))).collectives
    assert len(found) == 0
    assert found.in_flight.total == 0
    assert np.array_equal(found.take_rows(np.arange(0)).start, found.start)


@pytest.mark.parametrize(
    ("stream", "work", "count"), [(20, "gemm", 2), (7, "gemm", 1), (20, "", 1)]
)
def test_an_unknown_kernel_on_a_stream_of_collectives_is_part_of_one(stream, work, count):
    made = Builder()
    with made.step():
        made.op("aten::mm", kernels=[(work or "unheard_of", ms(1))])
        made.launch("allreduce_small_ring", ms(3), stream=stream)
        made.launch("Generic_4", ms(1), stream=stream)
    assert len(Facts(made.timeline()).collectives) == count
