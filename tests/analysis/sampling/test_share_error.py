"""How far shares from stack samples may be off."""

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.sampling.share_error import is_sampled, share_bounds, wilson_interval
from whyidle.model.roles import Role
from whyidle.model.timeline import StackSampleWeights
from whyidle.testing import recorded_job
from whyidle.testing.recorded_job import RecordedJob

MS = 1_000_000
OWN = "/job/train.py(30): metrics;/job/train.py(20): <module>"
OPS = "/torch/nn/linear.py(134): forward;/job/train.py(12): <module>"


def test_the_interval_of_a_share_is_wilsons():
    low, value, high = wilson_interval(np.arange(10) < 8, np.ones(10))
    assert value == pytest.approx(0.8)
    assert (low, high) == (pytest.approx(0.541, abs=0.01), pytest.approx(0.931, abs=0.01))


def test_looks_that_agree_prove_no_certainty():
    low, value, high = wilson_interval(np.ones(10, bool), np.ones(10))
    assert value == high == 1.0
    assert 0.7 < low < 0.85


def test_looks_that_speak_for_unequal_times_count_as_fewer():
    even = wilson_interval(np.arange(20) % 2 == 0, np.ones(20))
    odd = wilson_interval(np.arange(20) % 2 == 0, np.repeat([1.0, 9.0], 10))
    assert odd[0] < even[0]
    assert odd[2] > even[2]


def imagined(python, rest, random, steps=200, every=3):
    """A job of steps with so much Python and so much else between calls, ms; few are looked at."""
    job = RecordedJob()
    for _ in range(steps):
        job.backward(OPS, 5 * MS)
        job.step(OPS, 2 * MS)
        job.now += (python + rest) * MS
    begin = 1_000_000_000
    for at in np.sort(random.uniform(begin, job.now, steps // every)).astype(int):
        where = (at - begin) % ((7 + python + rest) * MS) - 7 * MS
        if where >= 0:
            held = 5000 | recorded_job.TAKEN if where < python * MS else recorded_job.FREE
            job.samples.append((int(at), int(at), OWN if held > recorded_job.TAKEN else OPS, held))
    job.samples = [row for row in job.samples if row[2] == OWN or row[1] == row[0]]
    job.samples.sort()
    return Facts(job.timeline())


def test_nine_of_ten_intervals_hold_the_truth():
    random, held = np.random.default_rng(5), 0
    for _ in range(80):
        facts = imagined(6, 7, random)
        low, high = share_bounds(facts, facts.time_of("python"))
        held += low <= 6 / 20 <= high
    assert held >= 66  # fewer have a probability of 2 % where nine of ten do


def test_more_looks_narrow_it():
    random = np.random.default_rng(6)
    widths = []
    for every in (8, 1):
        facts = imagined(6, 7, random, every=every)
        low, high = share_bounds(facts, facts.time_of("python"))
        widths.append(high - low)
    assert widths[1] < 0.6 * widths[0]


def test_what_recorded_calls_tell_has_no_such_error():
    job = RecordedJob()
    for _ in range(20):
        with job.call("gc.collect"):
            job.python(OWN, 10 * MS)
        job.python(OWN, 10 * MS)
        job.step(OPS, 5 * MS)
    facts = Facts(job.timeline())
    assert not is_sampled(facts, facts.timeline.rows_of(Role.GC))
    names = facts.timeline.names
    rows = [row for row, i in enumerate(facts.timeline.host.name) if "metrics" in names[i]]
    assert rows
    assert is_sampled(facts, np.array(rows))


def test_without_looks_the_share_stands_alone():
    job = RecordedJob()
    for _ in range(20):
        job.python(OWN, 10 * MS)
        job.step(OPS, 5 * MS)
    timeline = job.timeline()
    assert isinstance(timeline.looks, StackSampleWeights)
    object.__setattr__(timeline, "looks", None)
    facts = Facts(timeline)
    low, high = share_bounds(facts, facts.time_of("python"))
    assert low == high == facts.bucket_share("python")


def test_looks_weigh_what_they_speak_for():
    job = RecordedJob()
    for _ in range(20):
        job.python(OWN, 10 * MS)
        job.step(OPS, 5 * MS)
    looks = job.timeline().looks
    assert looks.weight.sum() == pytest.approx(20 * 15 * MS, rel=0.1)
    assert len(np.unique(looks.phase)) == 2  # in the optimizer's call, and after it


def test_stacks_that_were_noted_at_calls_are_no_looks():
    seen = []
    for noted in (0, 1):
        job = RecordedJob()
        for _ in range(20):
            job.python(OWN, 10 * MS)
            job.samples += noted * [(job.now, -1, OWN, 0)]
            job.step(OPS, 5 * MS)
        seen.append(job.timeline().looks.time.tolist())
    assert seen[0] == seen[1]
