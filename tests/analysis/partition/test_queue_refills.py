"""Idle time that a host which had waited for its device is to blame for."""

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.partition.idle_gaps import Gaps
from whyidle.analysis.partition.queue_refills import RunAhead, find_refills
from whyidle.testing.builder import Builder, ms, us

FAR = 1_000_000


def taken(gaps, waits, lost=(), most=FAR, apart=()):
    start, end = np.array(gaps, dtype=np.int64).reshape(-1, 2).T
    begin, until = np.array(waits, dtype=np.int64).reshape(-1, 2).T
    told = Gaps(start, end, np.full(len(start), -1))
    low, high = np.array(apart, dtype=np.int64).reshape(-1, 2).T
    lead = RunAhead(np.array(lost, dtype=np.int64), most, Intervals(low, high))
    found = find_refills(told, begin, until, lead)
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def test_a_gap_right_behind_a_wait_up_to_what_was_stood_still():
    assert taken([(100, 130)], [(40, 110)]) == [(100, 130)]
    assert taken([(100, 130)], [(90, 110)]) == [(100, 110)]


def test_later_gaps_until_as_much_is_lost():
    gaps = [(100, 130), (200, 230), (300, 330)]
    assert taken(gaps, [(55, 105)]) == [(100, 130), (200, 215)]


def test_waits_add_up():
    gaps = [(100, 130), (200, 230), (300, 330)]
    assert taken(gaps, [(60, 105), (190, 205)]) == [(100, 130), (200, 220)]
    assert taken(gaps, [(0, 105), (190, 205)]) == [(100, 130), (200, 230), (300, 330)]


def test_a_lead_is_no_longer_than_a_step_and_gone_where_others_are_waited_for():
    gaps = [(100, 130), (200, 230), (300, 330)]
    assert taken(gaps, [(0, 105), (195, 205)], most=35) == [(100, 130), (200, 210)]
    assert taken(gaps, [(0, 105)], lost=[150]) == [(100, 130)]
    assert taken(gaps, [(0, 105)], lost=[120]) == [(100, 120)]


def test_what_has_a_name_of_its_own_is_not_blamed_on_an_earlier_wait():
    gaps = [(100, 130), (200, 230), (300, 330)]
    found = taken(gaps, [(0, 105)], apart=[(90, 120), (210, 320)])
    assert found == [(100, 130), (200, 210), (320, 330)]


@pytest.mark.parametrize("waits", [[], [(10, 20)], [(10, 99)], [(140, 150)], [(105, 110)]])
def test_waits_behind_which_the_device_goes_on_take_nothing(waits):
    assert taken([(100, 130)], waits) == []
    assert taken([], waits) == []


@pytest.mark.parametrize("seed", range(20))
def test_never_more_than_was_stood_still_and_only_idle_time(seed):
    chance = np.random.default_rng(seed)
    edges = np.sort(chance.choice(10_000, 80, replace=False))
    gaps = edges.reshape(-1, 2)
    begin = np.sort(chance.choice(10_000, 15, replace=False))
    waits = np.stack([begin, begin + chance.integers(1, 400, 15)], axis=1)
    lost = np.sort(chance.choice(10_000, 3))
    found = taken(gaps, waits, lost)
    assert all(any(a <= low and high <= b for a, b in gaps) for low, high in found)
    blocked = [max(0, min(max([a for a, _ in gaps if a <= e], default=b), e) - b) for b, e in waits]
    assert sum(high - low for low, high in found) <= sum(blocked)


def layers(job: Builder, *, read: bool) -> None:
    """A forward pass of small layers, the host slower than the device, then a long way back."""
    for _ in range(10):
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(300))], host=us(500))
    if read:
        job.item()
    job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(8))])


def trained(*, read: bool) -> Facts:
    job = Builder()
    for _ in range(8):
        with job.step():
            layers(job, read=read)
            if read:
                job.item()
    return Facts(job.timeline())


def test_what_waiting_costs_is_what_the_job_without_it_does_not_lose():
    sick, cured = trained(read=True), trained(read=False)
    gained = 1 - cured.step_s / sick.step_s
    assert gained > 0.1
    assert sick.bucket_share("sync") == pytest.approx(gained, abs=0.03)


def test_a_host_that_is_slower_than_its_device_loses_little_by_a_short_wait():
    job = Builder()
    for _ in range(8):
        with job.step():
            for _ in range(10):
                job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(100))], host=us(500))
            job.item()
    facts = Facts(job.timeline())
    assert facts.bucket_share("host") > 0.6
    assert facts.bucket_share("sync") < 0.05


def test_a_long_pause_after_a_wait_keeps_its_own_name():
    job = Builder()
    for _ in range(8):
        with job.step():
            layers(job, read=False)
            job.item()
            job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(300))])
            job.python("train.py(7): assign", ms(2))
    facts = Facts(job.timeline())
    assert facts.bucket_share("python") * facts.step_s > 1.6e-3
