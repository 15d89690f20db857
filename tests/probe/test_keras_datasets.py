"""When each batch of a PyDataset is there, and how long its step waited for it."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from whyidle.probe.frameworks import keras_datasets, keras_hooks
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


@pytest.mark.parametrize("backend", ["jax", "tensorflow", None])
def test_only_the_adapter_of_kerass_backend_installs_its_hooks(monkeypatch, backend):
    """Keras 2 and tf_keras have no backend but TensorFlow."""
    names = {"keras.src.a": ModuleType("a"), "tf_keras.a": ModuleType("a")}
    for name, module in names.items():
        module.Model = object
        monkeypatch.setitem(sys.modules, name, module)
    if backend:
        config = SimpleNamespace(backend=lambda: backend)
        monkeypatch.setitem(sys.modules, keras_hooks.CONFIG, config)
    found = []
    events = SimpleNamespace(undo={}, run_contained=lambda where, work, module: found.append(where))
    for own in ("jax", "torch", "tensorflow"):
        for name in names:
            keras_hooks.after_import(events, name, "Model", print, own)
    assert [where.rpartition(" ")[2] for where in found] == [
        *[own for own in ("jax", "tensorflow") if own == (backend or "tensorflow")],
        "tensorflow",
    ]
