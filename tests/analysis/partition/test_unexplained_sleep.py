"""How long a training thread stood still, and what that says of reads that find it stopped."""

from dataclasses import replace

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.host.process_stops import find_unexplained_sleep
from whyidle.model.timeline import CpuPace, HostKind
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LINE, ENGINE = "/job/train.py(20): train", "/job/train.py(21): train"


def thread(*, asleep_ms, loading_ms=0, steps=20):
    """A rank that sleeps before each backward pass, or waits for a batch."""
    guest, ends, ran = RecordedJob(rank="0", world_size="2"), [], []
    for _ in range(steps):
        guest.work(LINE, ms(8))
        guest.now += ms(asleep_ms)
        if loading_ms:
            with guest.call("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                guest.wait(LINE, ms(loading_ms))
        with guest.call("whyidle::backward", HostKind.OP):
            guest.work(ENGINE, ms(10))
            with guest.call("gloo:all_reduce"):
                guest.wait(ENGINE, ms(2))
        ends.append(guest.now)
        ran.append(guest._ran)
        guest.step(LINE, ms(1))
    timeline = guest.timeline()
    ends, ran = np.array(ends) - timeline.base_ns, np.array(ran)
    return replace(timeline, pace=CpuPace(ends, ran, 0 * ran))


@pytest.mark.parametrize(("asleep_ms", "share"), [(0, 0.0), (3, 0.25), (9, 0.5)])
def test_share_of_the_time_outside_of_backward_passes(asleep_ms, share):
    found = find_unexplained_sleep(Facts(thread(asleep_ms=asleep_ms)))
    assert found.low <= found.share <= found.high
    assert found.share == pytest.approx(share, abs=0.01)


def test_who_waits_for_a_batch_does_not_stand_still():
    assert find_unexplained_sleep(Facts(thread(asleep_ms=0, loading_ms=9))).share == pytest.approx(
        0.0, abs=0.01
    )


def test_too_few_rounds_tell_nothing():
    assert find_unexplained_sleep(Facts(thread(asleep_ms=3, steps=5))) is None
    assert find_unexplained_sleep(Facts(replace(thread(asleep_ms=3), pace=None))) is None
