"""Checkpoints beside the training: the same file, whole whenever somebody looks."""
# Scripts look at files in every way that there is:
# ruff: noqa: PTH101, PTH102, PTH104, PTH105, PTH107, PTH110, PTH114, PTH116
# ruff: noqa: PTH123, PTH202, PTH208, PTH211

import argparse
import collections
import filecmp
import io
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy
import pytest
import small_jobs as jobs
import torch

from whyidle.probe.knobs import _free_memory

KNOB = "checkpoint.asynchronous"
EDIT = {KNOB: True}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def there(path):
    """Whether the file is there, past our own way to it."""
    try:
        return bool(getattr(os.stat, "__wrapped__", os.stat)(path).st_size)
    except FileNotFoundError:
        return False


def state(seed=0):
    net = jobs.model(seed)
    optimizer = torch.optim.Adam(net.parameters())
    jobs.train(net, 2, optimizer)
    return {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


def plain(value, name="c.pt"):
    Path("plain").mkdir(exist_ok=True)
    torch.save(value, f"plain/{name}")
    return f"plain/{name}"


def same(one, other):
    return filecmp.cmp(one, other, shallow=False)


def tied():
    """Views of one storage."""
    whole = torch.arange(9.0).share_memory_()
    return [whole, whole[2:5], whole.view(3, 3).t()]


def text_that_is_shared():
    """The same object at two places, and an equal one at a third."""
    name = "".join(["na", "me"])
    return [name, {name: [name]}, "".join(["na", "me"])]


def scheduler():
    optimizer = torch.optim.SGD(jobs.model().parameters(), lr=0.1, momentum=0.9)
    return torch.optim.lr_scheduler.StepLR(optimizer, 3).state_dict()


VALUES = {
    "state": state,
    "module": jobs.model,
    "shared": lambda: {"a": torch.arange(9.0).share_memory_()},
    "tied": tied,
    "parameter": lambda: {"w": torch.nn.Parameter(torch.ones(3)).share_memory_()},
    "leaf": lambda: (torch.ones(3).share_memory_().requires_grad_(),),
    "object": lambda: collections.Counter("abc"),
    "arrays": lambda: {"random": numpy.random.default_rng(1).random(500)},
    "shared text": text_that_is_shared,
    "config": lambda: {"args": argparse.Namespace(lr=0.1, name="lr"), "lr": "lr", "x": "name"},
    "empty": lambda: [torch.empty(0), torch.empty(0, 3)],
    "non-leaf": lambda: torch.ones(3, requires_grad=True) * 2,
    "scheduler": scheduler,
}


@pytest.mark.parametrize("name", VALUES)
def test_the_file_is_the_same_byte_for_byte(turn, name):
    value = VALUES[name]()
    expected = plain(value)
    session = turn(EDIT)
    assert torch.save(value, "c.pt") is None
    assert same("c.pt", expected)
    assert session.applied == {"checkpoint.asynchronous": 1}
    assert not session.declined
    assert sorted(os.listdir()) == ["c.pt", "plain"]


def test_it_holds_the_state_at_the_time_of_the_call(slow, turn):
    net = jobs.model()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    shared = torch.zeros(3).share_memory_()
    turn(EDIT)
    torch.save([net.state_dict(), shared], "c.pt")
    jobs.train(net, 3)
    shared.fill_(7)
    slow()
    found, other = torch.load("c.pt")
    assert all(torch.equal(found[name], before[name]) for name in before)
    assert other.tolist() == [0, 0, 0]


def listed(path):
    return path in os.listdir()


def scanned(path):
    return [entry.stat().st_size for entry in os.scandir() if entry.name == path] == [SIZE[0]]


def copied(path):
    return os.path.getsize(shutil.copy(path, "copy.pt")) == SIZE[0]


def hard_linked(path):
    os.link(path, "other.pt")
    return os.path.getsize("other.pt") == SIZE[0]


def with_its_folder(path):
    os.mkdir("old")
    os.rename(path, f"old/{path}")
    torch.save({"a": torch.arange(9.0)}, "old/next.pt")
    os.rename("old", "new")
    return len(torch.load("new/next.pt")["a"]) == 9


def linked(path):
    os.symlink(path, "link.pt")
    return os.path.getsize("link.pt") == SIZE[0]


def asked_of_another_program(path):
    code = f"import os; print(os.path.getsize({path!r}))"
    said = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=True)
    return int(said.stdout) == SIZE[0]


SIZE = [0]
LOOKS = {
    "exists": os.path.exists,
    "isfile": lambda path: Path(path).is_file(),
    "access": lambda path: os.access(path, os.R_OK),
    "size": lambda path: os.path.getsize(path) == SIZE[0],
    "load": lambda path: torch.load(path)["epoch"] == 3,
    "open": lambda path: len(Path(path).read_bytes()) == SIZE[0],
    "glob": lambda path: [str(found) for found in Path().glob("c.*")] == [path],
    "removed": lambda path: os.remove(path) is None and not os.path.exists(path),
    "listed": listed,
    "scanned": scanned,
    "copied": copied,
    "hard link": hard_linked,
    "folder": with_its_folder,
    "linked": linked,
    "program": asked_of_another_program,
}


@pytest.mark.parametrize("look", LOOKS)
def test_whoever_looks_finds_it_whole(slow, turn, look):
    value = state()
    SIZE[0] = os.path.getsize(plain(value))
    turn(EDIT)
    torch.save(value, "c.pt")
    assert not there("c.pt")
    slow()
    assert LOOKS[look]("c.pt")


def test_two_saves_to_one_path(slow, turn):
    turn(EDIT)
    torch.save([1], "c.pt")
    slow()
    torch.save([2], Path("./c.pt").absolute())
    assert torch.load("c.pt") == [2]


def test_the_one_before_stands_until_the_new_one_is_whole(slow, turn):
    torch.save([1], "c.pt")
    os.chmod("c.pt", 0o640)
    before = os.stat("c.pt").st_ino
    turn(EDIT)
    torch.save([2], "c.pt")
    assert os.stat.__wrapped__("c.pt").st_ino == before  # past our own way to the file
    slow()
    assert torch.load("c.pt") == [2]
    assert os.stat("c.pt").st_mode & 0o777 == 0o640


def test_files_appear_in_the_order_in_which_they_were_saved(slow, turn):
    turn(EDIT)
    for number in range(1, 7):
        torch.save([number], f"{number}.pt")
    slow()
    found = sorted(os.listdir(), key=lambda name: os.stat(name).st_mtime_ns)
    assert found == [f"{number}.pt" for number in range(1, 7)]


MOVES = {
    "replace": os.replace,
    "rename": os.rename,
    "pathlib": lambda old, new: Path(old).replace(new),
    "shutil": shutil.move,
}


@pytest.mark.parametrize("move", MOVES)
def test_whoever_renames_it_waits(slow, turn, move):
    """Write, then rename: so that there is a whole file at any time."""
    torch.save([0], "c.pt")
    turn(EDIT)
    torch.save([1], "c.tmp")
    assert not there("c.tmp")
    slow()
    name = {"replace": "replace", "rename": "rename"}.get(move)
    (getattr(os, name) if name else MOVES[move])("c.tmp", "c.pt")
    assert torch.load("c.pt") == [1]
    assert sorted(os.listdir()) == ["c.pt"]


def test_renaming_again_and_again(slow, turn):
    turn(EDIT)
    slow()
    for number in range(4):
        torch.save([number], "c.tmp")
        os.replace("c.tmp", "c.pt")
    assert not os.path.exists("c.tmp")
    assert torch.load("c.pt") == [3]


def test_renaming_to_where_it_cannot_be_fails_as_ever(slow, turn):
    turn(EDIT)
    os.mkdir("full")
    torch.save([1], "c.pt")
    slow()
    with pytest.raises(FileNotFoundError):
        os.replace("c.pt", "nowhere/c.pt")
    with pytest.raises(IsADirectoryError):
        os.replace("c.pt", "full")
    assert torch.load("c.pt") == [1]


def test_a_link_is_followed(turn):
    os.mkdir("there")
    os.symlink("there/real.pt", "c.pt")
    turn(EDIT)
    torch.save([1], "c.pt")
    assert os.path.islink("c.pt")
    assert torch.load("there/real.pt") == [1]


def test_a_disk_that_fails_is_told_at_the_next_save(turn, capfd):
    save = torch.save

    def full(*args):
        if threading.current_thread() is not threading.main_thread() and not args[0]["fits"]:
            raise OSError(28, "No space left on device")
        save(*args)

    with pytest.MonkeyPatch.context() as planted:
        planted.setattr(torch, "save", full)
        session = turn(EDIT)
        torch.save({"fits": False}, "c.pt")
        assert not os.path.exists("c.pt")
        assert "c.pt could not be written" in capfd.readouterr().err
        with pytest.raises(RuntimeError, match=r"c\.pt could not be written: .* No space left"):
            torch.save({"fits": True}, "d.pt")
        torch.save({"fits": True}, "d.pt")
        assert torch.load("d.pt") == {"fits": True}
        session.undo_changes()


def test_what_cannot_be_written_is_told_at_once(turn):
    session = turn(EDIT)
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch.save([1], "nowhere/c.pt")
    with pytest.raises(RuntimeError):
        torch.save([1], ".")
    assert not session.applied


def test_without_memory_it_is_written_as_before(turn, monkeypatch):
    session = turn(EDIT)
    monkeypatch.setattr(
        _free_memory, "GROUPS", ((str(Path("limit").absolute()), str(Path("use").absolute())),)
    )
    Path("limit").write_text("1000")
    Path("use").write_text("990")
    torch.save([torch.ones(20)], "c.pt")
    assert there("c.pt")
    assert "too little memory" in session.declined[KNOB]
    assert not session.applied


UNUSUAL = {
    "a view of another kind": lambda: torch.ones(3, dtype=torch.complex64).conj(),
    "a tensor of a class of its own": lambda: torch.ones(3).as_subclass(Own),
    "a storage": lambda: torch.ones(3).untyped_storage(),
    "sparse": lambda: torch.eye(3).to_sparse(),
}


class Own(torch.Tensor):
    pass


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_cannot_be_copied_is_written_as_before(turn, name):
    value = UNUSUAL[name]()
    expected = plain(value)
    session = turn(EDIT)
    torch.save(value, "c.pt")
    assert same("c.pt", expected)
    assert list(session.declined) == [KNOB]
    assert not session.applied


def test_what_cannot_be_pickled_is_told_as_before(turn):
    session = turn(EDIT)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        torch.save(lambda: None, "c.pt")
    assert not session.applied


@pytest.mark.parametrize(
    "options", [{"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}]
)
def test_with_further_options_it_is_written_as_before(turn, options):
    session = turn(EDIT)
    torch.save([torch.ones(2)], "c.pt", **options)
    assert there("c.pt")
    assert not session.applied


def test_an_open_file_is_written_at_once(slow, turn):
    session = turn(EDIT)
    with open("c.pt", "wb") as file:
        torch.save([torch.ones(2)], file)
        assert file.tell()
    assert not session.applied


def test_a_little_disk_is_left_to_the_script(turn, monkeypatch):
    session = turn(EDIT)
    usage = shutil.disk_usage(".")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    torch.save([1], "c.pt")
    assert Path("c.pt").stat().st_size
    assert not session.applied


def test_another_thread_writes_for_itself(turn):
    session = turn(EDIT)
    thread = threading.Thread(target=torch.save, args=([1], "c.pt"))
    thread.start()
    thread.join()
    assert torch.load("c.pt") == [1]
    assert not session.applied


def test_threads_that_hold_locks_are_no_obstacle(turn):
    """Others compute, print and allocate while the process is copied."""
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            torch.randn(64, 64).matmul(torch.randn(64, 64)).sum().item()
            sys.stderr.flush()
            [object() for _ in range(100)]

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    turn(EDIT)
    try:
        for number in range(8):
            torch.save({"a": torch.randn(100_000), "n": number}, "c.pt")
            assert torch.load("c.pt")["n"] == number
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_ranks_meet_after_it_is_whole(slow, turn):
    stat, seen = os.stat, []
    with pytest.MonkeyPatch.context() as planted:
        barrier = lambda: seen.append(stat("c.pt").st_size)  # noqa: E731  as another rank sees it
        planted.setattr(torch.distributed, "barrier", barrier)
        session = turn(EDIT)
        torch.save([1], "c.pt")
        slow()
        torch.distributed.barrier()
        session.undo_changes()
    assert seen[0] > 0


def test_the_process_is_never_forked_for_it(turn, monkeypatch):
    def fork():
        raise AssertionError("forked")

    monkeypatch.setattr(os, "fork", fork)
    session = turn(EDIT)
    torch.save(state(), "c.pt")
    assert torch.load("c.pt")["epoch"] == 3
    assert session.applied == {KNOB: 1}


def test_a_forked_copy_waits_for_nothing(turn):
    """It has no thread that writes; the process waits before it makes the copy."""
    turn(EDIT)
    torch.save([1], "c.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of PyTorch
        child = os.fork()
    if not child:
        os._exit(0 if torch.load("c.pt") == [1] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_files_of_one_folder_do_not_wait_for_each_other(slow, turn):
    turn(EDIT)
    for name in ("model.pt", "optimizer.pt", "scheduler.pt"):
        torch.save([name], name)
    assert not any(map(there, ("model.pt", "optimizer.pt", "scheduler.pt")))
    slow()
    assert [torch.load(name) for name in ("model.pt", "scheduler.pt")] == [
        ["model.pt"],
        ["scheduler.pt"],
    ]


JOB = """
import os, signal, sys, torch
from whyidle.probe import knobs
hand = knobs.KnobSession(sys.argv[1], {"edits": {"checkpoint.asynchronous": True}})
hand.apply_knobs()
torch.save({"a": torch.ones(1000, 1000), "n": 5}, "c.pt")
if sys.argv[2] == "_exit":
    os._exit(0)
if sys.argv[2] != "end":
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
"""


@pytest.mark.parametrize("how", ["end", "_exit", "SIGTERM", "SIGKILL"])
def test_a_job_that_ends_leaves_it_whole(tmp_path, how):
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", JOB, str(tmp_path), how],
        check=False,
        capture_output=True,
    )
    assert ended.returncode == (0 if how in ("end", "_exit") else -getattr(signal, how)), (
        ended.stderr
    )
    assert torch.load("c.pt")["n"] == 5
    assert not ended.stderr


@pytest.mark.parametrize("edit", [{"checkpoint.interval_factor": 10}, {KNOB: False}])
def test_nothing_else_makes_saving_wait_for_nobody(turn, edit):
    save = torch.save
    session = turn(edit)
    assert torch.save is save
    assert not session.applied


def test_why_nothing_was_saved_beside_the_training(turn):
    session = turn(EDIT)
    assert session.waiting[KNOB]() == (
        "nothing was saved to a file by torch.save or safetensors while it ran"
    )
    torch.save({}, io.BytesIO())
    assert "AsyncCheckpointIO" in session.waiting[KNOB]()
