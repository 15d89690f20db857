"""What belongs to a checkpoint, and what does not."""

import io
import os
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

from tests.probe.standin import Loop  # noqa: E402
from whyidle.probe.frameworks.torch.checkpoints import MOST_SAVES, SURE, CheckpointHooks  # noqa: E402


class Saved(Loop):
    """With what is told of its saves."""

    @property
    def saves(self):
        return self.live_facts["saves"]()


@pytest.fixture
def loop(monkeypatch):
    """One whose hooks come off in the end."""
    saves = Saved()
    saves.steps = 3
    before = {name: getattr(os, name) for name in SURE}
    CheckpointHooks(saves).install_hooks(torch)
    yield saves
    for undo in saves.undo.values():
        undo()
    assert {name: getattr(os, name) for name in SURE} == before


def write(folder):
    with (folder / "new").open("wb") as file:
        file.write(b"x")
        os.fsync(file.fileno())
    (folder / "new").replace(folder / "old")


def test_making_sure_of_a_checkpoint_is_part_of_it(loop, tmp_path):
    write(tmp_path)
    assert not loop.spans  # of something else
    torch.save({}, tmp_path / "kept")
    write(tmp_path)
    assert loop.spans == ["save_checkpoint"] * 3
    assert (tmp_path / "old").read_bytes() == b"x"
    loop.steps += 1
    write(tmp_path)
    assert len(loop.spans) == 3  # of the next step


def test_of_another_thread_is_no_part_of_it(loop, tmp_path):
    torch.save({}, tmp_path / "kept")
    thread = threading.Thread(target=write, args=(tmp_path,))
    thread.start()
    thread.join()
    assert len(loop.spans) == 1


def test_of_a_child_is_no_part_of_it(loop, tmp_path):
    torch.save({}, tmp_path / "kept")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads
        child = os.fork()
    if not child:
        write(tmp_path)
        os._exit(len(loop.spans))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_files_are_noted_with_their_size(loop, tmp_path):
    for number in range(MOST_SAVES + 2):
        torch.save({}, tmp_path / f"{number}.pt")
    assert len(loop.saves) == MOST_SAVES
    first = loop.saves[0]
    assert first["path"] == str(tmp_path / "0.pt")
    assert first["bytes"] == (tmp_path / "0.pt").stat().st_size
    assert 0.0 < first["cpu_s"] <= first["seconds"] + 0.01
    assert not loop.faults


def test_of_a_file_that_the_script_opened_too(loop, tmp_path):
    with (tmp_path / "open").open("wb") as file:
        torch.save({"a": torch.ones(100)}, file)
        size = file.tell()
    (one,) = loop.saves
    assert (one["path"], one["bytes"]) == (str(tmp_path / "open"), size)
    assert not loop.faults


def test_of_memory_that_something_else_writes_to_a_file(loop):
    memory = io.BytesIO()
    torch.save({"a": torch.ones(100)}, memory)
    (one,) = loop.saves
    assert (one["path"], one["bytes"]) == ("<memory>", len(memory.getvalue()))
    assert not loop.faults


def test_memory_stands_for_a_checkpoint_only_where_no_file_is_saved(loop, tmp_path):
    for _ in range(MOST_SAVES + 2):
        torch.save({}, io.BytesIO())
    assert [one["path"] for one in loop.saves] == ["<memory>"] * MOST_SAVES
    for number in range(2):
        torch.save({}, tmp_path / f"{number}.pt")
        torch.save({}, io.BytesIO())
    assert [one["path"] for one in loop.saves] == [str(tmp_path / f"{n}.pt") for n in range(2)]
    assert not loop.faults


def test_a_pipe_has_no_size_and_is_no_fault(loop):
    read, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as file:
        torch.save({}, Named(file))
    os.close(read)
    (one,) = loop.saves
    assert (one["path"], one["bytes"]) == ("<stdout>", None)
    assert not loop.faults


class Named:
    """What a job may write to: it has a name, and cannot tell where it is."""

    name = "<stdout>"

    def __init__(self, file):
        self.write, self.flush = file.write, file.flush


def test_a_failing_call_fails_as_before(loop, tmp_path):
    torch.save({}, tmp_path / "kept")
    with pytest.raises(FileNotFoundError):
        (tmp_path / "none").replace(tmp_path / "old")
    assert not loop.faults
