"""The DataLoader's settings: which loaders take them, and which must not."""

import json
import logging
import random
import sqlite3
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    get_worker_info,
    random_split,
)

from whyidle.probe.frameworks.torch.loader_facts import describe_loader
from whyidle.probe.knobs import NO_FORM, _fork_safety
from whyidle.probe.knobs import loader as knob

WORKERS = {"loader.workers": 2}


class Numbers(Dataset):
    """Each is what it always is."""

    def __init__(self, **held):
        self.__dict__.update(held)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        info = get_worker_info()
        return torch.tensor([index, -1 if info is None else info.id, torch.get_num_threads()])


def columns(loader):
    """Index, worker and threads of every sample."""
    return [column.tolist() for column in torch.cat(list(loader)).unbind(1)]


def waiting(session):
    """What knobs that took no hold are said to wait for."""
    session.write_state()
    (path,) = Path(session.folder).glob("*.knobs.json")
    return json.loads(path.read_text())["waiting"]


def test_workers_make_the_same_batches(turn):
    plain = columns(DataLoader(Numbers(), batch_size=4))
    session = turn({"loader.workers": 2, "loader.persistent_workers": True}, {"loader.workers": 0})
    loader = DataLoader(Numbers(), batch_size=4)
    assert (loader.num_workers, loader.persistent_workers) == (2, True)
    indices, workers, _ = columns(loader)
    assert indices == plain[0]
    assert set(workers) == {0, 1}
    assert session.applied == {"loader.workers": 1, "loader.persistent_workers": 1}
    assert not session.declined


def test_a_loader_of_one_batch_has_nothing_to_load_ahead(turn):
    session = turn(WORKERS)
    one = BatchSampler(SequentialSampler(range(4)), 4, drop_last=True)
    assert DataLoader(Numbers(), batch_size=16).num_workers == 0
    assert DataLoader(Numbers(), batch_sampler=one).num_workers == 0
    assert "one batch only" in waiting(session)["loader.workers"]
    assert DataLoader(Numbers(), batch_size=15).num_workers == 2
    assert not session.declined
    assert not waiting(session)


def test_a_loader_of_other_workers_than_the_plan_was_made_for_is_told(turn):
    session = turn(WORKERS, {"loader.workers": 1})
    assert DataLoader(Numbers(), batch_size=4).num_workers == 0
    assert "no DataLoader was made with num_workers=1" in waiting(session)["loader.workers"]


def test_a_shuffled_order_is_kept(turn):
    def order():
        made = torch.Generator().manual_seed(3)
        return columns(DataLoader(Numbers(), batch_size=4, shuffle=True, generator=made))[0]

    plain = order()
    turn(WORKERS)
    assert order() == plain


def test_arguments_by_position(turn):
    turn({"loader.workers": 2, "loader.prefetch_factor": 3})
    loader = DataLoader(Numbers(), 4, False, None, None, 0)
    assert (loader.num_workers, loader.batch_size, loader.prefetch_factor) == (2, 4, 3)


def test_a_batch_sampler_is_kept(turn):
    turn(WORKERS)
    sampler = BatchSampler(SequentialSampler(range(16)), 5, drop_last=True)
    loader = DataLoader(Numbers(), batch_sampler=sampler)
    assert (loader.num_workers, loader.batch_sampler) == (2, sampler)
    assert columns(loader)[0] == list(range(15))


def test_a_subclass_is_reached_through_its_base(turn):
    class Mine(DataLoader):
        def __init__(self, data):
            super().__init__(data, batch_size=2)

    turn(WORKERS)
    assert Mine(Numbers()).num_workers == 2


def test_loaders_set_otherwise_are_other_loaders(turn):
    session = turn(WORKERS, {"loader.workers": 0})
    assert DataLoader(Numbers(), num_workers=1).num_workers == 1
    assert not session.applied
    assert not session.declined


def test_what_is_so_already_is_no_change(turn):
    session = turn({"loader.prefetch_factor": 4})
    DataLoader(Numbers(), num_workers=1, prefetch_factor=4)
    assert not session.applied
    DataLoader(Numbers(), num_workers=1)
    assert session.applied == {"loader.prefetch_factor": 1}


def test_settings_that_need_workers_wait_for_them(turn):
    session = turn({"loader.prefetch_factor": 4, "loader.persistent_workers": True})
    assert DataLoader(Numbers()).num_workers == 0
    assert not session.applied


class Noted:
    """A worker_init_fn."""

    def __call__(self, worker):
        torch.manual_seed(1000 + worker)


class Random(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.tensor([float(torch.get_num_threads()), torch.rand(()).item()])


def test_threads_of_workers_beside_a_worker_init_fn(turn):
    plain = list(DataLoader(Random(), num_workers=1, worker_init_fn=Noted()))
    session = turn({"loader.worker_threads": 2})
    treated = list(DataLoader(Random(), num_workers=1, worker_init_fn=Noted()))
    assert [x[0, 1] for x in treated] == [x[0, 1] for x in plain]
    assert {x[0, 0].item() for x in treated} == {2.0}
    assert DataLoader(Random()).worker_init_fn is None
    assert session.applied == {"loader.worker_threads": 1}


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(6))


def test_a_stream_gets_no_several_workers(turn):
    session = turn(WORKERS)
    loader = DataLoader(Stream(), batch_size=2)
    assert loader.num_workers == 0
    assert torch.cat(list(loader)).tolist() == list(range(6))
    assert "divides its samples" in session.declined["loader.workers"]


def test_one_worker_gives_a_stream_once(turn):
    plain = [batch.tolist() for batch in DataLoader(Stream(), batch_size=2)]
    session = turn({"loader.workers": 1, "loader.persistent_workers": True}, {"loader.workers": 0})
    loader = DataLoader(Stream(), batch_size=2)
    assert (loader.num_workers, loader.persistent_workers) == (1, True)
    assert [[batch.tolist() for batch in loader] for _ in range(2)] == [plain] * 2
    assert session.applied["loader.workers"] == 1
    assert not session.declined


def test_a_stream_that_one_worker_gives_is_not_given_to_two(turn):
    session = turn(WORKERS, {"loader.workers": 1})
    loader = DataLoader(Stream(), batch_size=2, num_workers=1)
    assert loader.num_workers == 1
    assert torch.cat(list(loader)).tolist() == list(range(6))
    assert "divides its samples" in session.declined["loader.workers"]


def test_how_many_batches_an_epoch_has_is_told_by_loaders_that_need_not_draw_them():
    class Drawn(torch.utils.data.Sampler):
        def __iter__(self):
            return iter(range(9))

        def __len__(self):
            raise AssertionError("it would have to draw them all")

    data = torch.utils.data.TensorDataset(torch.zeros(9, 1))
    told = [
        DataLoader(data, batch_size=2, shuffle=True),
        DataLoader(data, batch_size=2, drop_last=True),
        DataLoader(data, batch_size=None),
        DataLoader(data, sampler=Drawn()),
        DataLoader(data, batch_sampler=[[0], [1]]),
        DataLoader(Stream()),
    ]
    assert [describe_loader(one)["batches"] for one in told] == [5, 4, 9, None, None, None]


@pytest.mark.parametrize(("workers", "told"), [(0, True), (2, False)])
def test_a_watched_loader_tells_what_keeps_its_data_from_workers(workers, told):
    data = Numbers()
    data.connection = sqlite3.connect(":memory:")
    unfit = describe_loader(DataLoader(data, num_workers=workers))["unfit"]
    assert ("dataset.connection is an open sqlite3 Connection" in unfit) == told


def test_what_is_opened_by_the_first_sample_keeps_nothing_from_workers():
    data = Numbers()
    loader = DataLoader(data)
    first = describe_loader(loader)["unfit"]
    data.connection = sqlite3.connect(":memory:")
    assert first == describe_loader(loader)["unfit"] == ""


def test_a_generator_of_its_own_is_told_unless_workers_are_seeded():
    data = Numbers()
    data.random = random.Random(1)
    assert "random generator" in describe_loader(DataLoader(data))["unfit"]
    assert not describe_loader(DataLoader(data, worker_init_fn=print))["unfit"]


def test_a_watched_dataset_is_looked_at_for_a_short_time_only():
    data = Numbers()
    data.much = [[[[0.5 * i * k] for i in range(64)] for k in range(64)] for _ in range(64)]
    seen = _fork_safety._VisitedObjects(_fork_safety.MOST)
    _fork_safety._look_inside(data, "", 4, seen, lambda _: "")
    assert len(seen) == _fork_safety.MOST


class OnDevice:
    """What lies elsewhere."""

    device = torch.device("cuda", 0)


def foreign(module):
    """An object of a class of that package."""
    return type("File", (), {"__module__": module})()


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (foreign("h5py._hl.files"), "dataset.held is an open h5py File"),
        (foreign("lmdb"), "an open lmdb File"),
        ([{"one": foreign("h5py")}], "dataset.held[0]['one'] is an open h5py"),
        (sqlite3.connect(":memory:"), "an open sqlite3 Connection"),
        (OnDevice(), "is on a GPU"),
        ((n for n in range(3)), "is a generator"),
        (Numbers(inner=foreign("h5py")), "dataset.held.inner is"),
    ],
    ids=["h5py", "lmdb", "nested", "sqlite3", "device", "generator", "inner"],
)
@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, range(8))], ids=["", "subset"])
def test_what_cannot_be_shared_by_processes(turn, held, why, wrap):
    session = turn(WORKERS)
    loader = DataLoader(wrap(Numbers(held=held)))
    assert loader.num_workers == 0
    told = session.declined["loader.workers"]
    assert why.removeprefix("dataset") in told
    assert told.partition(": ")[2].startswith(("have each worker open its own", "keep ", "store "))


@pytest.mark.parametrize(
    "own",
    [
        random.Random(0),
        np.random.default_rng(0),
        np.random.RandomState(0),
        torch.Generator(),
    ],
    ids=["python", "numpy", "numpy-old", "torch"],
)
def test_copies_of_a_generator_would_draw_the_same(turn, own):
    session = turn(WORKERS)
    assert DataLoader(Numbers(crop=Numbers(chance=own))).num_workers == 0
    assert "dataset.crop.chance is a random generator" in session.declined["loader.workers"]
    assert DataLoader(Numbers(drawn=own.__class__)).num_workers == 2
    assert DataLoader(Numbers(chance=own), worker_init_fn=print).num_workers == 2


def test_one_worker_draws_what_the_training_process_would(turn):
    session = turn({"loader.workers": 1}, {"loader.workers": 0})
    assert DataLoader(Numbers(chance=random.Random(0))).num_workers == 1
    assert not session.declined


def test_an_open_file_has_one_place_that_workers_would_share(turn, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"12345678")
    session = turn(WORKERS)
    with path.open("rb") as held:
        assert DataLoader(Numbers(held=held)).num_workers == 0
        assert "an open file" in session.declined["loader.workers"]
    with path.open("ab") as log:
        assert DataLoader(Numbers(log=log, logger=logging.getLogger())).num_workers == 2


def test_split_datasets_and_locks_are_no_obstacle(turn):
    turn(WORKERS)
    part, _ = random_split(Numbers(names=["a"] * 5, lock=threading.Lock()), [8, 8])
    assert DataLoader(part).num_workers == 2


def test_little_shared_memory(turn, monkeypatch):
    monkeypatch.setattr(_fork_safety, "SMALL_BYTES", 1 << 62)
    session = turn(WORKERS)
    assert DataLoader(Numbers()).num_workers == 0
    assert "/dev/shm" in session.declined["loader.workers"]


@pytest.fixture
def main(tmp_path, monkeypatch):
    """The script that runs."""
    path = tmp_path / "train.py"
    monkeypatch.setattr("sys.modules", {"__main__": type("M", (), {"__file__": str(path)})()})
    return path


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize(
    ("script", "held", "why"),
    [
        ("train()", None, "has no `if __name__"),
        ('if __name__ == "__main__":', lambda: 0, "cannot be pickled"),
        ('if __name__ == "__main__":', None, ""),
    ],
    ids=["unguarded", "unpicklable", "fine"],
)
def test_workers_that_are_no_copies(main, method, script, held, why):
    main.write_text(script)
    if why:
        with pytest.raises(_fork_safety.DeclinedError, match=why):
            _fork_safety._check_spawned_start(Numbers(held=held), method)
    else:
        _fork_safety._check_spawned_start(range(3), method)


def test_the_context_that_the_script_gives_counts(turn):
    session = turn(WORKERS)
    loader = DataLoader(Numbers(held=lambda: 0), multiprocessing_context=None)
    assert loader.num_workers == 2  # forked
    with pytest.raises(ValueError, match="multiprocessing"):  # PyTorch's own: without workers
        DataLoader(Numbers(held=lambda: 0), multiprocessing_context="spawn")
    assert (
        "pickled" in session.declined["loader.workers"]
        or "__main__" in session.declined["loader.workers"]
    )


def test_pinning_is_for_accelerators_and_never_in_the_training_loop(turn, monkeypatch):
    session = turn({"loader.pin_memory": True})
    if hasattr(torch, "accelerator"):  # another test may have registered the emulated one
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert not DataLoader(Numbers(), num_workers=1).pin_memory
    assert session.declined == {"loader.pin_memory": "there is no accelerator to copy to"}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert DataLoader(Numbers(), num_workers=1).pin_memory
    session.declined.clear()
    assert not DataLoader(Numbers()).pin_memory
    assert "the training loop itself would pin" in session.declined["loader.pin_memory"]


def test_the_scripts_own_mistakes_are_told_as_ever(turn):
    session = turn(WORKERS)
    with pytest.raises(TypeError, match="dataset"):
        DataLoader()
    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader(Numbers(), batch_size=2, batch_sampler=[[1], [2]])
    assert "mutually exclusive" in session.declined["loader.workers"]


def test_what_the_loader_refuses_is_given_up(turn):
    session = turn({"loader.prefetch_factor": -1})
    assert DataLoader(Numbers(), num_workers=1).prefetch_factor == 2
    assert session.declined["loader.prefetch_factor"].startswith("the DataLoader refuses: ")


def test_a_fault_in_the_knob_is_not_the_jobs(turn, faults, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(knob, "_changed_arguments", broken)
    session = turn(WORKERS)
    assert DataLoader(Numbers()).num_workers == 0
    assert "planted" in session.declined["loader.workers"]
    assert len(faults(session)) == 1


class Nested(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        inner = DataLoader(Numbers(), batch_size=16)
        return inner.num_workers + len(list(inner))


def test_a_loader_inside_a_worker_gets_none(turn):
    session = turn(WORKERS)
    outer = DataLoader(Nested())
    assert outer.num_workers == 2
    assert torch.cat(list(outer)).tolist() == [1, 1]
    assert not session.declined


def test_what_has_no_such_form(turn):
    session = turn({"loader.sharding": True, **WORKERS})
    assert session.declined == {"loader.sharding": NO_FORM}
    assert DataLoader(Numbers()).num_workers == 2


def test_threads_of_another_library(turn, monkeypatch):
    asked = torch.zeros(1, dtype=torch.int32).share_memory_()
    library = types.ModuleType("cv2")
    library.setNumThreads = lambda number: asked.fill_(100 + number)
    monkeypatch.setitem(sys.modules, "cv2", library)
    turn({"loader.worker_threads": 1})
    list(DataLoader(Numbers(), num_workers=1))
    assert asked.item() == 100
