"""How many samples the steps have used, with PyTorch's own loaders."""

import functools

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402
from torch.utils.data import dataloader as loaders  # noqa: E402

from whyidle.probe.core import fault_containment  # noqa: E402
from whyidle.probe.frameworks.torch import trial_hooks  # noqa: E402
from whyidle.probe.trial.sample_counter import SampleCounter  # noqa: E402

KIND = loaders._BaseDataLoaderIter
ROWS = TensorDataset(torch.arange(20.0))


@pytest.fixture
def counted(tmp_path, monkeypatch):
    for name in ("_next_index", "__next__", "_reset"):
        monkeypatch.setattr(KIND, name, getattr(KIND, name))
    found = SampleCounter()
    trial_hooks.count_samples(str(tmp_path), found)
    yield found
    assert not list(tmp_path.glob("*.faults"))


def steps(counted, loader, each=lambda: None):
    """What has been used by each step, one for every batch."""
    told = []
    for _ in loader:
        counted.note_backward()
        told.append(counted.note_step())
        each()
    return told


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_as_large_as_they_were_asked_for(counted, workers):
    loader = DataLoader(ROWS, 8, num_workers=workers)
    assert steps(counted, loader) == [8, 16, 20]
    assert steps(counted, loader) == [28, 36, 40]


def test_workers_that_stay_start_anew_with_each_epoch(counted):
    loader = DataLoader(ROWS, 8, num_workers=1, persistent_workers=True)
    next(iter(loader))  # the rest of the epoch is never taken
    counted.note_backward()
    assert counted.note_step() == 8
    assert steps(counted, loader) == [16, 24, 28]


def test_what_an_evaluation_draws_does_not_count(counted):
    other = DataLoader(ROWS, 5)
    assert steps(counted, DataLoader(ROWS, 8), lambda: list(other)) == [8, 16, 20]


def test_several_batches_of_a_step_all_count(counted):
    for _ in DataLoader(ROWS, 4):
        counted.note_backward()
    assert counted.note_step() == 20


def test_a_batch_that_is_learned_from_in_parts_counts_once(counted):
    told = []
    for _ in DataLoader(ROWS, 10):
        for _ in range(2):
            counted.note_backward()
            told.append(counted.note_step())
    assert told == [10, 10, 20, 20]


def test_a_stream_counts_what_it_was_asked_for(counted):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(8))

    assert steps(counted, DataLoader(Stream(), 4)) == [4, 8]


def test_batches_from_elsewhere_count_nothing(counted):
    for _ in range(3):
        counted.note_backward()
        assert counted.note_step() == 0


def test_a_fault_of_ours_reaches_no_job(counted, tmp_path, monkeypatch):
    monkeypatch.setattr(fault_containment, "seen", set())
    monkeypatch.setattr(counted, "note_batch", functools.partial(int, "no number"))
    assert [len(batch[0]) for batch in DataLoader(ROWS, 8)] == [8, 8, 4]
    (faults,) = tmp_path.glob("*.faults")
    assert faults.read_text().startswith("samples: ")
    faults.unlink()
