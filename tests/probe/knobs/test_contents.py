"""What an object holds: a change of any of it is seen, and none where nothing was changed."""

import collections
import ctypes
import functools
import multiprocessing
import types

import numpy as np
import pytest
import torch

from whyidle.probe.knobs import _contents
from whyidle.probe.knobs._contents import changed, fingerprint
from whyidle.probe.knobs._names import names_of


class Held:
    """Has what is named."""

    def __init__(self, **held):
        self.__dict__.update(held)

    def used(self):
        return self.also + self.one

    @property
    def also(self):
        return self.two


def written(name, at, value):
    return lambda held: getattr(held, name).__setitem__(at, value)


def scaled(factor, some):
    return factor, some


def closed(over):
    return lambda: over


def deep():
    step = Held(size=224, to=Held(factor=2))
    return Held(data=Held(transform=Held(transforms=[Held(), step])), last=step)


def nested(value):
    def change(held):
        held.last.to.factor = value

    return change


SEEN = {
    "number": (lambda: Held(a=1), lambda held: setattr(held, "a", 2)),
    "new": (lambda: Held(a=1), lambda held: setattr(held, "b", 2)),
    "gone": (lambda: Held(a=1, b=2), lambda held: delattr(held, "b")),
    "list": (lambda: Held(a=[1, 2, 3]), written("a", 1, 7)),
    "texts": (lambda: Held(a=["x", "y"]), written("a", 1, "z")),
    "long list": (lambda: Held(a=list(range(200_000))), written("a", 177_001, -5)),
    "pairs": (lambda: Held(a=[("x", i) for i in range(9_000)]), written("a", 7, ("x", 9))),
    "objects": (lambda: Held(a=[Held(x=1)] * 3), lambda held: setattr(held.a[0], "x", 2)),
    "dict": (lambda: Held(a={"x": 1, "y": [2]}), lambda held: held.a["y"].append(3)),
    "values": (lambda: Held(a=dict.fromkeys(range(9_000), 0)), written("a", 8_000, 1)),
    "array": (lambda: Held(a=np.zeros(9_000)), written("a", 8_000, 1)),
    "view": (lambda: Held(a=np.zeros((90, 90))[:, ::2]), written("a", (89, 40), 1)),
    "object array": (lambda: Held(a=np.array([None, "y"])), written("a", 0, "z")),
    "tensor": (lambda: Held(a=torch.zeros(9)), written("a", 3, 1)),
    "behind its back": (lambda: Held(a=torch.zeros(9)), lambda held: held.a.data.fill_(1)),
    "bfloat16": (lambda: Held(a=torch.zeros(9).bfloat16()), written("a", 3, 1)),
    "deep": (deep, nested(3)),
    "list itself": (lambda: [1, 2, 3], lambda held: held.append(4)),
    "dict itself": (lambda: collections.OrderedDict(a=1), lambda held: held.update(a=2)),
    "partial": (lambda: functools.partial(scaled, [1]), lambda held: held.args[0].append(2)),
    "closure": (lambda: closed([1]), lambda held: held().append(2)),
    "method": (lambda: Held(one=1, two=2).used, lambda held: setattr(held.__self__, "two", 3)),
    "default": (
        lambda: types.FunctionType(scaled.__code__, {}, argdefs=([1],)),
        lambda held: held.__defaults__[0].append(2),
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_change_is_seen(name):
    make, change = SEEN[name]
    held = make()
    first = fingerprint(held)
    assert not changed(first, fingerprint(held))
    change(held)
    assert changed(first, fingerprint(held))


def test_which_attribute_is_told():
    held = deep()
    first = fingerprint(held)
    held.data.transform.transforms[1].size = 256
    assert changed(first, fingerprint(held)) == ["data"]


def test_a_method_has_only_what_its_code_names():
    used = Held(one=1, two=2, steps=0).used
    first = fingerprint(used)
    used.__self__.steps = 1
    assert not changed(first, fingerprint(used))
    assert names_of(used) >= {"one", "also", "two"}


def test_what_is_long_keeps_nothing_else_from_being_looked_at(monkeypatch):
    monkeypatch.setattr(_contents, "MOST", 100)
    held = Held(all=[[[Held(x=i)] for i in range(5_000)], deep()])
    first = fingerprint(held)
    held.all[1].last.size = 1
    assert changed(first, fingerprint(held)) == ["all"]


def test_the_rest_of_large_arrays_is_looked_at_here_and_there(monkeypatch):
    monkeypatch.setattr(_contents, "WHOLE_BYTES", 80_000)
    held = Held(small=np.zeros(10_000), large=np.zeros((100, 1_000)))
    first = fingerprint(held)
    held.large[50, 1] = 1
    assert not changed(first, fingerprint(held))
    held.large += 1
    assert changed(first, fingerprint(held)) == ["large"]


def test_some_of_what_is_very_long_is_seen_everywhere():
    held = Held(pairs=[("x", i) for i in range(300_000)], dicts=[{"x": i} for i in range(20_000)])
    for name, other in (("pairs", lambda _: ("y", 0)), ("dicts", lambda _: {"x": -5})):
        for begin in (0, 0.5, 0.9):
            first, one = fingerprint(held), getattr(held, name)
            part = range(int(begin * len(one)), int((begin + 0.1) * len(one)))
            for at in part:
                one[at] = other(at)
            assert changed(first, fingerprint(held)) == [name]


def test_a_circle_ends():
    held = Held(a=[])
    held.a.append(held)
    assert fingerprint(held) == fingerprint(held)


def test_a_tensor_that_was_looked_at_can_be_resized():
    held = types.SimpleNamespace(one=torch.arange(4.0))
    fingerprint(held)
    assert held.one.resize_(8).shape == (8,)


def test_lists_of_lists_are_looked_at_no_longer_than_one_list(monkeypatch):
    monkeypatch.setattr(_contents, "VALUES", 500)
    held = Held(many=[list(range(100)) for _ in range(50)])
    looked = []

    class Counting(_contents._Look):
        def _values(self, many):
            before = self.values_left
            try:
                return super()._values(many)
            finally:
                looked.append(before - self.values_left)

    monkeypatch.setattr(_contents, "_Look", Counting)
    fingerprint(held)
    assert sum(looked[:5]) >= 400
    assert max(looked[8:]) <= _contents.FEW


def test_all_attributes_together_have_an_end(monkeypatch):
    monkeypatch.setattr(_contents, "MOST", 100)
    monkeypatch.setattr(_contents, "MANY", 200)
    held = Held(**{f"a{n}": [Held(one=i) for i in range(150)] for n in range(20)})
    told = [len(one) for one in fingerprint(held).values()]
    assert max(told[:4]) == 100
    assert max(told[8:]) == 25


@pytest.mark.parametrize("made", ["numpy.memmap", "numpy.asarray", "torch.from_numpy"])
def test_a_large_file_that_is_mapped_is_not_read(tmp_path, monkeypatch, made):
    monkeypatch.setattr(_contents, "WHOLE_BYTES", 100)
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(4_096,))
    forms = {"numpy.memmap": lambda x: x, "numpy.asarray": np.asarray}
    held = Held(data=forms.get(made, lambda x: torch.from_numpy(np.asarray(x)))(mapped))
    before = fingerprint(held)
    mapped[:] = 1
    assert fingerprint(held) == before


def test_memory_that_processes_share_is_of_interest_or_not():
    base = multiprocessing.Array(ctypes.c_float, 64)
    array = np.ctypeslib.as_array(base.get_obj())
    for held in (Held(data=array), Held(data=torch.from_numpy(array))):
        array[:] = 0
        inside, outside = fingerprint(held), fingerprint(held, shared=False)
        array[:] = 1
        assert fingerprint(held) != inside
        assert fingerprint(held, shared=False) == outside


def test_sparse_tensors_are_looked_at_as_far_as_they_tell():
    held = Held(edges=torch.eye(3).to_sparse())
    for shared in (True, False):
        assert fingerprint(held, shared=shared) == fingerprint(held, shared=shared)
