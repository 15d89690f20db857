"""Whose memory it is."""

import mmap

import numpy as np
import torch

from whyidle.probe.knobs import _mapped
from whyidle.probe.knobs._mapped import OWN, Maps, Owner


def test_memory_of_ones_own_shared_memory_and_files(tmp_path):
    own, shared = np.ones(1 << 20), np.frombuffer(mmap.mmap(-1, 1 << 20), np.uint8)
    file = np.memmap(tmp_path / "data", np.uint8, "w+", shape=(1 << 16,))
    copy = np.memmap(tmp_path / "data", np.uint8, "c", shape=(1 << 16,))
    maps = Maps()
    found = [maps.of(one.ctypes.data) for one in (own, shared, file, copy)]
    assert found == [OWN, Owner(True, False), Owner(True, True), Owner(False, True)]
    assert maps.of(torch.ones(2).share_memory_().data_ptr()) == OWN  # it is newer
    assert Maps().of(0) == OWN


def test_where_the_system_has_no_such_list_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(_mapped, "LIST", str(tmp_path / "none"))
    assert Maps().of(np.ones(3).ctypes.data) == OWN
