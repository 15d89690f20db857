"""When each batch of a PyDataset is there, and how long its step waited for it."""

from whyidle.probe.frameworks import keras_datasets
from whyidle.probe.frameworks.keras_datasets import Delivery

MS = 1_000_000


def deliver(*times, most=keras_datasets.MOST_BATCHES):
    delivery = Delivery(0)
    delivery.given = len(times)
    delivery.times.extend(times[-most:])
    return delivery


def test_a_step_waits_from_its_call_until_its_batch_is_there():
    calls = [(0, 12 * MS), (13 * MS, 20 * MS), (21 * MS, 40 * MS)]
    delivery = deliver(5 * MS, 9 * MS, 30 * MS)
    assert delivery.find_waits(calls, 0) == [5 * MS, 0, 9 * MS]
    assert delivery.find_waits(calls[1:], 1) == [0, 9 * MS]


def test_no_wait_is_longer_than_its_call():
    assert deliver(50 * MS).find_waits([(0, 12 * MS)], 0) == [12 * MS]


def test_batches_whose_times_are_forgotten_tell_nothing():
    delivery = deliver(5 * MS, 9 * MS, 30 * MS, most=2)
    assert delivery.find_waits([(0, 12 * MS)], 0) == []
    assert delivery.find_waits([(21 * MS, 40 * MS)], 2) == [9 * MS]
