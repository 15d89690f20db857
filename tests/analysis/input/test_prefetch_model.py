"""Batches pass through a queue of any depth; where an epoch ends is told by calls that got none."""

import numpy as np
import pytest

from whyidle.analysis.input.prefetch_model import epoch_starts, simulate_queue, wait_in_epochs


def loop(workers, depth, epoch, count, *, cost=3, between=10):
    """A loop over several epochs whose workers stay: when batches were begun, and when calls for
    one ended."""
    now, begun, called = 0, [], []
    for _ in range(count):
        free, taken = [now] * workers, []
        for k in range(epoch):
            start = max(free[k % workers], taken[k - depth] if k >= depth else now) + 1
            free[k % workers] = start + cost * (1 + k % 3)
            begun.append(start)
            taken.append(max(now, free[k % workers]))
            called.append(taken[-1])
            now = taken[-1] + between
        called.append(now)  # none is left
    return np.sort(begun), np.array(called)


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("cost", [1, 3, 40])
def test_epochs_are_told_exactly(workers, cost):
    begun, called = loop(workers, 2 * workers, 12, 4, cost=cost)
    assert np.flatnonzero(epoch_starts(begun, called)).tolist() == [12, 24, 36]


def test_one_epoch_has_no_other():
    assert not epoch_starts(*loop(2, 4, 12, 1)).any()


def test_calls_that_were_not_recorded_invent_no_epoch():
    begun, called = loop(2, 4, 12, 3)
    assert not epoch_starts(begun, called[::2]).any()


SLOW = [0.1 if k % 12 == 0 else 0.001 for k in range(48)]


def waits(depth, first=None):
    begins = np.zeros(48, bool) if first is None else np.arange(48) % first == 0
    return simulate_queue(SLOW, begins, workers=1, depth=depth, between=0.01)


def test_a_deep_queue_bridges_slow_batches():
    assert waits(2).others == pytest.approx(3 * 0.08 / 47, rel=0.05)
    assert waits(16).total_s < 0.1 * waits(2).total_s


def test_no_queue_is_filled_before_the_epoch_begins():
    """Each slow batch is the first of its epoch, and all of it is waited for."""
    for depth in (2, 16, 100):
        found = waits(depth, 12)
        assert found.first == pytest.approx(3 * 0.1 / 47)
        assert found.others == 0.0


@pytest.mark.parametrize(("workers", "waited"), [(1, 4.8), (12, 0.4), (48, 0.1), (60, 0.1)])
def test_an_epoch_waits_for_its_first_batches(workers, waited):
    """Its 48 batches take 0.1 s each, and the loop hardly anything."""
    costs = np.full(10, 0.1)
    found = wait_in_epochs(costs, 48, workers=workers, between=1e-6)
    assert 48 * found == pytest.approx(waited, rel=0.01)
