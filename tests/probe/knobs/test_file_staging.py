"""Files that datasets read again come from memory, and are never other files than they were."""

import builtins
import io
import os
import pickle
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from whyidle.probe.knobs import _file_staging, _free_memory

KNOB = "dataset.staging"
FILES = 12
READ = torch.zeros(1, dtype=torch.int32).share_memory_()
"""how often a file was really read, in whatever process"""


@pytest.fixture
def slow(monkeypatch):
    """Storage that takes a while; and how often it was asked."""
    plain = _file_staging._read_file

    def read(name, key, size):
        READ.add_(1)
        time.sleep(0.002)
        return plain(name, key, size)

    monkeypatch.setattr(_file_staging, "_read_file", read)
    READ.zero_()


@pytest.fixture
def folder(tmp_path):
    for number in range(FILES):
        (tmp_path / f"{number}.bin").write_bytes(np.full(300, number, np.uint8).tobytes())
    return tmp_path


class Files(Dataset):
    """A file for each sample."""

    def __init__(self, folder, read=lambda path: path.read_bytes()):
        self.folder, self.read = folder, read

    def __len__(self):
        return FILES

    def __getitem__(self, index):
        return self.read(self.folder / f"{index}.bin")


def epochs(data, count=3, after=lambda epoch: None, **named):
    loader = DataLoader(data, batch_size=3, collate_fn=list, **named)
    seen = []
    for epoch in range(count):
        seen += [one for batch in loader for one in batch]
        after(epoch)
    return seen


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}], ids=["alone", "workers"])
def test_files_are_read_once_and_looked_at_again_now_and_then(turn, slow, folder, workers):
    plain = epochs(Files(folder), **workers)
    hand = turn({KNOB: True})
    assert epochs(Files(folder), count=8, **workers)[: len(plain)] == plain
    assert not hand.declined
    looked = _file_staging.FIRST * (1 if not workers else 7 * 2)
    assert READ.item() <= FILES + looked + FILES * 8 // _file_staging.EVERY
    if not workers:
        assert hand.applied[KNOB] >= 8 * FILES - READ.item()


def in_the_middle(path):
    with open(os.fsencode(path), "rb") as file:  # noqa: PTH123
        return file.name, file.seek(5), file.read(2), file.fileno() > 2


@pytest.mark.parametrize(
    "read",
    [
        lambda path: open(path, "rb").read(100),  # noqa: PTH123, SIM115
        lambda path: io.open(path, mode="rb", buffering=0).read(),  # noqa: UP020, SIM115
        lambda path: path.read_text("latin-1"),
        lambda path: np.fromfile(path, np.uint8).tolist(),
        lambda path: np.memmap(path, np.uint8, mode="r").tolist(),
        in_the_middle,
    ],
    ids=["open", "io", "text", "fromfile", "memmap", "file"],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_whatever_reads_them_sees_the_same(turn, slow, folder, read):
    plain = epochs(Files(folder, read))
    turn({KNOB: True})
    assert epochs(Files(folder, read)) == plain


def test_a_file_that_is_written_anew_is_read_anew(turn, slow, folder):
    hand = turn({KNOB: True})

    def write(epoch):
        (folder / "3.bin").write_bytes(bytes([100 + epoch]) * 300)

    seen = epochs(Files(folder), count=4, after=write)
    assert [seen[epoch * FILES + 3][0] for epoch in range(4)] == [3, 100, 101, 102]
    assert hand.applied[KNOB]


def test_a_change_that_no_time_shows_ends_it(turn, slow, folder):
    hand = turn({KNOB: True})

    def write(epoch):
        path = folder / "0.bin"
        before = path.stat()
        path.write_bytes(bytes([200 + epoch]) * 300)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_file_staging, "_file_key", lambda name, _: name.encode()[-16:].rjust(16))
        seen = epochs(Files(folder), count=2, after=write)
    assert seen[FILES][0] == 200
    assert hand.declined[KNOB] == "a file has changed, and its times have not"


def test_what_is_read_as_fast_from_where_it_is_is_left_there(turn, folder, monkeypatch):
    monkeypatch.setattr(_file_staging, "LEAST", 1e9)
    hand = turn({KNOB: True})
    plain = epochs(Files(folder), count=4)
    assert plain == epochs(Files(folder), count=4)
    assert "read as fast as copies" in hand.declined[KNOB]


def test_a_near_file_for_each_sample_does_not_speak_for_those_far_away(turn, folder, monkeypatch):
    plain = _file_staging._read_file

    def read(name, key, size):
        time.sleep(0.01 * name.endswith(".bin"))
        return plain(name, key, size)

    (folder / "kinds.txt").write_text("oak, ash")
    monkeypatch.setattr(_file_staging, "_read_file", read)
    monkeypatch.setattr(_file_staging, "LEAST", 200.0)
    hand = turn({KNOB: True})
    near = Files(folder, lambda path: (folder / "kinds.txt").read_text() and path.read_bytes())
    assert epochs(near) == [bytes([n]) * 300 for n in range(FILES)] * 3
    assert KNOB not in hand.declined
    assert hand.applied[KNOB] >= FILES


def imported(path):
    """Code that is imported where the first batch is made, as plug-ins for kinds of files are."""
    loader = SourceFileLoader("code", str(path.with_suffix(".py")))
    return loader.get_data(loader.path)


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}], ids=["alone", "workers"])
def test_code_that_is_imported_is_left_alone(turn, slow, folder, workers):
    for number in range(FILES):
        (folder / f"{number}.py").write_text(f"NUMBER = {number}")
    hand = turn({KNOB: True})
    assert len(epochs(Files(folder, imported), **workers)) == 3 * FILES
    assert not READ.item()
    assert not hand.applied


def test_where_memory_is_full_files_are_read_as_ever(turn, slow, folder, monkeypatch):
    monkeypatch.setattr(_free_memory, "free_bytes", lambda: 4 * 4 * 320)
    hand = turn({KNOB: True})
    seen = epochs(Files(folder), count=4)
    assert seen == [bytes([n]) * 300 for n in range(FILES)] * 4
    assert READ.item() >= 4 * (FILES - 4)
    assert hand.applied[KNOB]


def test_large_files_are_left_alone(turn, slow, folder, monkeypatch):
    monkeypatch.setattr(_file_staging, "LARGEST", 299)
    hand = turn({KNOB: True})
    assert len(epochs(Files(folder))) == 3 * FILES
    assert not READ.item()
    assert not hand.applied


def test_only_where_batches_are_made_and_only_to_read(turn, slow, folder):
    def read(path):
        with path.open("ab") as file:
            file.write(b"")
        with path.open("r+b") as file:
            return file.read(3)

    hand = turn({KNOB: True})
    epochs(Files(folder, read))
    for _ in range(3):
        (folder / "1.bin").read_bytes()
    assert not READ.item()
    assert not hand.applied


def test_errors_are_the_scripts_own(turn, slow, folder):
    turn({KNOB: True})
    with pytest.raises(FileNotFoundError, match=r"gone\.bin"):
        epochs(Files(folder, lambda path: path.with_name("gone.bin").read_bytes()))
    with pytest.raises(LookupError, match="no-such-code"):
        epochs(Files(folder, lambda path: path.read_text("no-such-code")))


class Stream(IterableDataset):
    def __init__(self, folder):
        self.folder = folder

    def __iter__(self):
        return ((self.folder / f"{n}.bin").read_bytes() for n in range(FILES))


def test_streams_of_files_as_well(turn, slow, folder):
    plain = epochs(Stream(folder))
    hand = turn({KNOB: True})
    assert epochs(Stream(folder)) == plain
    assert hand.applied[KNOB]


def test_open_is_pickled_by_its_name_and_is_no_method(turn):
    turn({KNOB: True})
    assert pickle.loads(pickle.dumps(builtins.open)) is io.open
    kind = type("Keeps", (), {"open": builtins.open})
    with kind().open(__file__) as file:
        assert file.readline().startswith('"""')


def test_no_descriptor_is_left_open(turn, slow, folder):
    before = len(list(Path("/proc/self/fd").iterdir()))
    turn({KNOB: True})
    epochs(Files(folder))
    with pytest.raises(LookupError):
        epochs(Files(folder, lambda path: path.read_text("no-such-code")), count=2)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_fault_in_the_knob_is_not_the_jobs(turn, slow, folder, faults, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(_file_staging, "_file_key", broken)
    hand = turn({KNOB: True})
    assert len(epochs(Files(folder))) == 3 * FILES
    assert "planted" in hand.declined[KNOB]
    assert len(faults(hand)) == 1


def test_two_files_of_one_slot_are_not_taken_for_each_other(monkeypatch):
    monkeypatch.setattr(_file_staging, "SLOTS", 1)
    shelf = _file_staging.FileShelf(1 << 12)
    shelf.put_file(b"a" * 16, b"first")
    shelf.put_file(b"b" * 16, b"second")
    assert bytes(shelf.get_file(b"a" * 16)) == b"first"
    assert shelf.get_file(b"b" * 16) is None


def by_descriptor(path):
    number = os.open(path, os.O_RDONLY)
    try:
        return os.read(number, 300)
    finally:
        os.close(number)


LIMITS = {
    "its files are larger than": (Path.read_bytes, "LARGEST", 299),
    "of the free memory, where no file found room": (Path.read_bytes, "SHARE", 1e-18),
    "through Python's open": (by_descriptor, "LARGEST", 300),
}


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}], ids=["alone", "workers"])
@pytest.mark.parametrize("met", LIMITS)
def test_why_nothing_took_hold_is_told(turn, folder, monkeypatch, met, workers):
    read, name, value = LIMITS[met]
    monkeypatch.setattr(_file_staging, name, value)
    hand = turn({KNOB: True})
    assert hand.waiting[KNOB]() == ""
    epochs(Files(folder, read), count=2, **workers)
    assert met in hand.waiting[KNOB]()
    assert not hand.applied


def test_a_single_epoch_opens_no_file_twice(turn, slow, folder):
    hand = turn({KNOB: True})
    epochs(Files(folder), count=1)
    assert "second time" in hand.waiting[KNOB]()
