"""What arms held in memory at most."""

from dataclasses import replace
from pathlib import Path

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.loop.fix_document import PeakMemory, peak_memory


def arm(*ranks):
    """Of each rank the host's bytes and the device's."""
    each = [
        ProcessReport("stopped", 0, [], [], rank=rank, memory_bytes=host, device_peak=device)
        for rank, (host, device) in enumerate(ranks)
    ]
    ran = ArmResult("stopped", 0, 1.0, Path("nowhere"), "", each[0] if each else None)
    return replace(ran, ranks=dict(enumerate(each))) if len(each) > 1 else ran


def test_it_is_the_most_of_all_arms():
    assert peak_memory([arm((3, 7)), arm((5, 6))]) == PeakMemory(5, 7)


def test_ranks_share_the_host_and_have_a_device_each():
    assert peak_memory([arm((3, 7), (5, 6))]) == PeakMemory(8, 7)


def test_what_one_of_them_did_not_tell_is_not_known():
    assert peak_memory([arm((3, None), (5, 6))]) == PeakMemory(8, None)
    assert peak_memory([arm((3, 7)), arm((None, 6))]) == PeakMemory(None, 7)
    assert peak_memory([arm((3, 7)), arm()]) == peak_memory([]) == PeakMemory(None, None)
