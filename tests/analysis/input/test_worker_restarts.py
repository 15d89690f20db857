"""What new workers cost a device, that may have work left while they start."""

import numpy as np
import pytest

from whyidle.analysis.input.worker_restarts import held_up
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.testing.builder import ms

MADE = np.array([ms(120), ms(520)])
"""two epochs later: the old workers take 20 ms to end, the new ones 50 ms to the first batch"""
WINDOWS = Intervals(
    np.array([ms(100), ms(120), ms(500), ms(520)]), np.array([ms(119), ms(170), ms(519), ms(570)])
)


def waiting(ahead):
    """When the device waits, which still has so much to do when an epoch ends."""
    return Intervals(np.array([ms(100), ms(500)]) + ahead, np.array([ms(170), ms(570)])) & WINDOWS


def saved(ahead, cost, share=0.0):
    return held_up(WINDOWS, waiting(ahead), MADE, cost, share) / ms(1)


def test_a_device_without_a_queue_waits_for_the_first_batch_of_kept_workers_too():
    assert saved(0, ms(8)) == 2 * (69 - 8)
    assert saved(0, ms(8), 0.1) == pytest.approx(2 * (69 - 8 - 6.9))


@pytest.mark.parametrize("cost", [0, 8, 19])
def test_a_queue_outlasts_the_first_batch_of_kept_workers(cost):
    """It is as full when they begin: nothing is left of the wait, whatever the batch costs."""
    assert saved(ms(20), ms(cost)) == 2 * 50


def test_as_far_as_it_outlasts_it():
    assert saved(ms(20), ms(25)) == 2 * (50 - 6)
    assert saved(ms(20), ms(100)) == 0


def test_where_workers_only_end_nothing_of_that_is_left():
    ends = Intervals(WINDOWS.start[2:3], WINDOWS.end[2:3])
    assert held_up(ends, ends, MADE[:1], ms(8)) == ms(19)
    assert held_up(EMPTY, EMPTY, MADE[:0], ms(8)) == 0
