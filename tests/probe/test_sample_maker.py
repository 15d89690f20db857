"""Random augmentation stays online: a chain of transforms is divided where samples differ."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from whyidle.planning.preparation.shards import Preparation
from whyidle.planning.preparation.survey import survey_dataset
from whyidle.probe.preparation.prepared_dataset import PreparedDataset

torch = pytest.importorskip("torch")

DATASET = """
import torch
class Compose:
    def __init__(self, transforms): self.transforms = transforms
    def __call__(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x
def square(x): return x * x
def shake(x): return x + torch.rand(4)
class Halve:
    def __call__(self, x): return x / 2
class Numbers(torch.utils.data.Dataset):
    def __init__(self): self.transform = Compose([square, shake, Halve()])
    def __len__(self): return 40
    def __getitem__(self, index): return self.transform(torch.full((4,), float(index))), index
make = Numbers
"""


def test_the_prefix_is_what_two_processes_make_alike(tmp_path: Path):
    path = tmp_path / "numbers_set.py"
    path.write_text(DATASET)
    spec = f"{path}:make"
    survey = survey_dataset(sys.executable, spec, [])
    assert survey.prefix == 1
    assert survey.rest == ["shake", "Halve()"]
    made = Preparation(sys.executable, spec, survey, folder=tmp_path / "out", shard=2_000)
    with made.open_folder():
        made.write_shards(1, lambda done, total: None)
        made.finish_data()
    prepared = PreparedDataset(str(tmp_path / "out"), transform=lambda x: x + 1)
    assert len(made.shards) > 1
    sample, index = pickle.loads(pickle.dumps(PreparedDataset(str(tmp_path / "out"))))[7]
    assert index == 7
    assert sample.equal(torch.full((4,), 49.0))
    assert prepared[39][0].equal(torch.full((4,), 39.0 * 39.0 + 1))
