"""What physics forbids is mended and noted; what it allows stays."""

import numpy as np
import pytest

from whyidle.analysis.partition.idle_gaps import link_launches
from whyidle.analysis.recording_checks import check_recordings, mend_recording
from whyidle.testing.builder import Builder, us


def job(*lengths: float) -> Builder:
    built = Builder()
    for length in lengths:
        built.launch("gemm", us(length))
    return built


def kernels(built: Builder) -> list[dict]:
    return [event for event in built.events if event["cat"] == "kernel"]


def ends(timeline) -> list[int]:
    return timeline.device.end.tolist()


def test_a_sound_recording_stays_the_same():
    timeline = job(100, 50, 100).timeline()
    assert mend_recording(timeline) is timeline
    assert check_recordings([timeline]) == [timeline]


def test_a_kernel_that_outlasts_the_next_takes_as_long_as_others_of_its_name():
    sound, built = job(100, 100, 100, 100).timeline(), job(100, 100, 100, 100)
    kernels(built)[1]["dur"] = 1e6
    mended = mend_recording(built.timeline())
    assert ends(mended) == ends(sound)
    assert "1 kernels end after later kernels" in mended.source.notes[0]


def test_a_short_overlap_is_an_early_start():
    built = job(100, 100)
    kernels(built)[0]["dur"] += 5
    timeline = built.timeline()
    assert mend_recording(timeline) is timeline


def test_kernels_of_a_graph_may_run_side_by_side():
    built = Builder()
    built.graph([("branch", us(100)), ("branch", us(20))])
    first, second = kernels(built)
    second["ts"] = first["ts"] + 10
    timeline = built.timeline()
    assert mend_recording(timeline) is timeline


def test_streams_overlap():
    built = Builder()
    built.launch("gemm", us(500))
    built.launch("gemm", us(20), stream=9)
    timeline = built.timeline()
    assert mend_recording(timeline) is timeline


def test_an_end_long_after_the_recording_is_cut():
    built = job(100, 100, 100)
    kernels(built)[-1]["dur"] = 1e9
    mended = mend_recording(built.timeline())
    assert ends(mended) == ends(job(100, 100, 100).timeline())
    assert "longer than the whole recording" in mended.source.notes[0]


def test_the_only_kernel_may_be_long():
    timeline = job(5_000_000).timeline()
    assert mend_recording(timeline) is timeline


@pytest.mark.parametrize("number", [5, (1 << 63) - 1])
def test_launches_with_one_id_are_matched_in_order(number):
    built = job(100, 50, 100)
    for event in built.events:
        event["args"]["correlation"] = number
    mended = mend_recording(built.timeline())
    assert link_launches(mended).call.tolist() == [0, 1, 2]
    assert "matched in their order" in mended.source.notes[0]


def test_an_id_of_most_calls_with_some_kernels_missing_links_nothing():
    built = job(100, 50, 100, 100)
    for event in built.events:
        event["args"]["correlation"] = 5
    built.events.remove(kernels(built)[1])
    mended = mend_recording(built.timeline())
    assert not link_launches(mended).has_launch.any()


def test_ids_that_begin_again_link_to_the_call_before():
    built = job(100, 50, 100, 100, 70, 80)
    rows = sorted(built.events, key=lambda event: (event["cat"], event["ts"]))
    for i, event in enumerate(rows):
        event["args"]["correlation"] = 1 + i % 3
    built.events.remove(kernels(built)[0])
    linked = link_launches(mend_recording(built.timeline()))
    assert np.diff(linked.call).tolist() == [1, 1, 1, 1]
