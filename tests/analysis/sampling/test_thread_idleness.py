"""What a thread slept while it waited for other ranks is no blocking call between two looks."""

import numpy as np
from sampled import host_calls

from whyidle.analysis.sampling.thread_idleness import find_idle, sum_before
from whyidle.model.stack_samples import STACK_SAMPLE

MS = 1_000_000


def looks(count, runnable_ms):
    """A look every 20 ms at a thread that was runnable for so long before each."""
    samples = np.zeros(count, STACK_SAMPLE)
    samples["time"] = np.arange(count) * 20 * MS
    samples["runnable_ns"] = np.arange(count) * runnable_ms * MS
    samples["thread"] = 7
    return samples


def met(count, length_ms, thread=7):
    start = np.arange(count) * 20 * MS + 4 * MS
    return host_calls(start, start + length_ms * MS, thread)


def blocked(samples, spans):
    return find_idle(samples, samples["time"], spans)


def test_a_thread_that_waits_for_ranks_alone_is_not_blocked():
    samples = looks(6, 8)
    assert blocked(samples, met(0, 0)).any()
    assert not blocked(samples, met(5, 12)).any()


def test_the_waiting_of_another_thread_explains_nothing():
    assert blocked(looks(6, 8), met(5, 12, thread=8)).any()


def test_a_thread_that_sleeps_besides_is_blocked():
    assert blocked(looks(6, 2), met(5, 8)).any()


def test_waiting_before_a_moment_counts_once_where_spans_overlap():
    spans = host_calls([10, 30, 32], [20, 40, 35], thread=7)
    moments = np.array([0, 10, 15, 20, 25, 33, 40, 99])
    assert sum_before(spans, moments).tolist() == [0, 0, 5, 10, 10, 13, 20, 20]
