"""A hash of what a dataset holds."""

import functools
import threading
import types

import numpy as np
import pytest
import torch

from whyidle.probe.knobs import _dataset_hash
from whyidle.probe.knobs._dataset_hash import NoHashError, hash_contents


def holding(**held):
    return types.SimpleNamespace(**held)


def local(factor):
    class Local:
        def __init__(self):
            self.factor = factor

    return Local()


def change(data, name, value):
    setattr(data, name, value)


CHANGES = {
    "number": (holding(epoch=1), lambda data: change(data, "epoch", 2)),
    "list": (holding(rows=[0] * 9), lambda data: data.rows.__setitem__(4, 1)),
    "array": (holding(rows=np.zeros(9)), lambda data: data.rows.__setitem__(4, 1)),
    "tensor": (holding(rows=torch.zeros(9)), lambda data: data.rows.__setitem__(4, 1)),
    "deep": (holding(a=holding(b=[{}])), lambda data: data.a.b[0].update(c=1)),
    "set": (holding(seen={"a"}), lambda data: data.seen.add("b")),
    "lambda": (holding(t=lambda x: x), lambda data: change(data, "t", lambda x: x)),
    "local class": (local(1), lambda data: change(data, "factor", 2)),
    "bound": (
        holding(t=functools.partial(max, [1])), lambda data: data.t.args[0].append(2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_it_changes_with_what_is_held_and_only_then(name):
    data, alter = CHANGES[name]
    before = hash_contents(data)
    assert hash_contents(data) == before
    alter(data)
    assert hash_contents(data) != before


def test_what_a_closure_holds_counts():
    factor = [1]
    data = holding(transform=lambda x: x * factor[0])
    before = hash_contents(data)
    assert hash_contents(data) == before
    factor[0] = 2
    assert hash_contents(data) != before


def test_shared_memory_may_be_left_out():
    data = holding(filled=torch.zeros(4).share_memory_(), epoch=1)
    whole, part = hash_contents(data), hash_contents(data, skip_shared=True)
    data.filled[1] = 1
    assert hash_contents(data) != whole
    assert hash_contents(data, skip_shared=True) == part
    data.epoch = 2
    assert hash_contents(data, skip_shared=True) != part


def test_what_cannot_be_pickled_has_none():
    with pytest.raises(NoHashError, match="cannot be pickled"):
        hash_contents(holding(lock=threading.Lock()))


def test_nor_has_what_is_too_large(monkeypatch):
    monkeypatch.setattr(_dataset_hash, "LARGEST_BYTES", 1 << 20)
    hash_contents(np.zeros(1 << 19, np.uint8))
    with pytest.raises(NoHashError, match="larger than 1 MiB"):
        hash_contents(np.zeros(1 << 21, np.uint8))
