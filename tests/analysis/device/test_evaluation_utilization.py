"""A line through reads of a GPU tells how busy it is while its host evaluates."""

from dataclasses import replace

import numpy as np
import pytest

from whyidle.analysis.device.evaluation_utilization import DOUBT, busy_evaluating
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.steps.step_detection import find_steps
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.testing.builder import Builder, ms

EVERY = ms(250)


def run(length, every, busy, *, noise=0.0, reads=100):
    """Evaluations so long and so often beside training that keeps the GPU 90 % busy, and what is
    read of that; ``busy`` is how much of an evaluation the GPU is."""
    times = np.arange(reads) * EVERY
    begin = np.arange(ms(40), times[-1], every)
    spans = Intervals(begin, begin + length)
    inside = spans.length_inside(times[:-1], times[1:]) / EVERY
    value = 0.9 + (busy - 0.9) * inside
    value = value + noise * np.random.default_rng(0).standard_normal(len(value))
    job = Builder()
    for _ in range(10):
        with job.step():
            job.python("train.py(9): step", int(times[-1]) // 10)
    timeline = job.timeline()
    series = {
        "busy_ratio@gpu0": Series(timeline.base_ns + times, np.append(0.9, value)),
    }
    timeline = replace(timeline, telemetry=Telemetry(series, {}))
    return busy_evaluating(timeline, find_steps(timeline), spans)


@pytest.mark.parametrize("busy", [0.1, 0.6, 1.0])
@pytest.mark.parametrize(
    ("length", "every"), [(ms(700), ms(1400)), (ms(60), ms(900)), (ms(30), ms(110))]
)
def test_evaluations_may_be_longer_or_shorter_than_what_a_read_covers(length, every, busy):
    found = run(length, every, busy)
    assert found.evaluating == pytest.approx(busy, abs=0.02)
    assert found.error < 0.01
    assert found.share == pytest.approx(length / every, abs=0.03)
    assert found.all == pytest.approx(0.9 + (busy - 0.9) * length / every, abs=0.03)


def test_the_error_is_that_of_a_line_through_noise():
    found = run(ms(300), ms(900), 0.4, noise=0.1)
    assert 0.005 < found.error < DOUBT
    assert found.evaluating == pytest.approx(0.4, abs=3 * found.error)


def test_evaluations_that_every_read_holds_alike_tell_nothing():
    assert run(ms(25), EVERY // 5, 0.2, noise=0.02) is None


def test_nor_do_too_few_reads_or_too_much_noise_or_none():
    assert run(ms(300), ms(900), 0.4, reads=10) is None
    assert run(ms(60), ms(900), 0.4, noise=0.5) is None
    assert run(ms(0), ms(900), 0.4) is None
