"""The picture of a typical step: bounded, disjoint, and true to the time it stands for."""

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.diagnosis.step_timeline import (
    BARS,
    Bars,
    draw_step,
    flatten_nested,
    join_short_bars,
    shorten_kernel,
    typical_step,
)
from whyidle.testing.builder import Builder, ms, us


def training(kernels=6, steps=4):
    job = Builder()
    for _ in range(steps):
        with job.step():
            job.loader(ms(3))
            job.copy("h2d", 1_000_000)
            for _ in range(kernels):
                job.op("aten::mm", kernels=[("void gemm_kernel<float>(int)", us(100))])
            job.sync()
    return Facts(job.timeline())


def lanes(drawn):
    return {lane.name: lane for lane in drawn.lanes}


def test_lanes_of_host_device_and_lost_time():
    drawn = draw_step(training())
    found = lanes(drawn)
    assert {"lost time", "stream 7", "host: annotations", "host: operators"} <= set(found)
    assert drawn.lanes[0].kind == "gap"
    assert "input" in {bar.group for bar in found["lost time"].slices}
    assert {"h2d", "matrix_product"} == {bar.group for bar in found["stream 7"].slices}
    assert found["host: annotations"].slices[0].label.startswith("enumerate(DataLoader)")


def test_what_was_seen_of_a_watched_thread_is_told_in_words():
    job = Builder()
    for _ in range(4):
        with job.step():
            job.python("whyidle::blocked", ms(3))
            job.python("/home/u/photos/train.py(12): crop", ms(3))
            job.op("aten::mm", kernels=[("void gemm_kernel<float>(int)", us(100))])
            job.sync()
    labels = {bar.label for bar in lanes(draw_step(Facts(job.timeline())))["host: Python"].slices}
    assert {"waits", "photos/train.py(12): crop"} <= labels


def test_lost_time_is_what_the_attribution_says():
    facts = training(steps=1)
    drawn = draw_step(facts)
    lost = sum(bar.duration_s * bar.filled for bar in lanes(drawn)["lost time"].slices)
    assert lost / drawn.duration_s == pytest.approx(1 - facts.attribution["compute"], abs=1e-3)


def test_bars_are_disjoint_and_inside():
    drawn = draw_step(training())
    for lane in drawn.lanes:
        starts = [bar.start_s for bar in lane.slices]
        ends = [bar.start_s + bar.duration_s for bar in lane.slices]
        assert min(starts) >= 0
        assert max(ends) <= drawn.duration_s + 1e-9
        assert all(b >= a - 1e-9 for a, b in zip(ends, starts[1:], strict=False))


def test_many_bars_are_joined_and_counted():
    drawn = draw_step(training(kernels=2_000, steps=1))
    lane = lanes(drawn)["stream 7"]
    assert len(lane.slices) <= 2 * BARS + 1
    assert lane.dropped == 2_001 - len(lane.slices)
    assert sum(bar.members for bar in lane.slices) == 2_001
    assert all(0 < bar.filled <= 1 for bar in lane.slices)


def test_joined_bars_keep_their_work_and_take_the_longest_label():
    count = BARS + 1
    start = np.arange(count) * 10
    length = np.where(np.arange(count) % 2, 5, 3)
    bars = Bars(start, start + length, np.arange(count), np.zeros(count, np.int64))
    shown, members, work = join_short_bars(bars, 20)
    assert work.sum() == length.sum()
    assert members.max() == 2
    assert shown.label[0] == 1


def test_a_typical_step_is_of_median_length():
    job = Builder()
    for pause in (9, 1, 2, 3, 2):
        with job.step():
            job.op("aten::mm", kernels=[("gemm", us(100))], host=ms(pause))
    facts = Facts(job.timeline())
    assert facts.steps.labels[typical_step(facts)] in ("ProfilerStep#3", "ProfilerStep#5")


def test_long_events_are_opened_and_short_ones_are_not():
    # main(0-100) calls f(10-60), which calls g(20-30); h(70-80) calls i(72-74)
    start = np.array([0, 10, 20, 70, 72])
    end = np.array([100, 60, 30, 80, 74])
    begin, finish, row = flatten_nested(start, end, long=20)
    assert list(zip(begin.tolist(), finish.tolist(), row.tolist(), strict=True)) == [
        (0, 10, 0),
        (10, 20, 1),
        (20, 30, 2),
        (30, 60, 1),
        (60, 70, 0),
        (70, 80, 3),
        (80, 100, 0),
    ]


def test_nothing_to_open():
    none = np.empty(0, np.int64)
    assert [len(part) for part in flatten_nested(none, none, 10)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("void gemm_kernel<float, 4>(int)", "gemm_kernel"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
            "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)",
            "vectorized_elementwise_kernel [CUDAFunctor_add]",
        ),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("x" * 200, "x" * 79 + "…"),
        ("<odd>", "<odd>"),
    ],
)
def test_short_names(name, told):
    assert shorten_kernel(name) == told
