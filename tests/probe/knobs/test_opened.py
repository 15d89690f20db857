"""Checkpoints saved to a file that the script has opened: the same bytes, and whole for whoever
goes on with the open file."""
# Scripts look at files in every way that there is:
# ruff: noqa: PTH105, PTH108, PTH116, PTH123, PTH208, SIM115, UP020

import io
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest
import torch

from whyidle.probe.knobs import _opened, _writers

EDIT = {"checkpoint.asynchronous": True}
VALUE = {"weights": torch.arange(9.0), "epoch": 3}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def slowly(monkeypatch):
    """Writers take a moment."""
    write = _writers._write

    def late(*args):
        time.sleep(0.2)
        write(*args)

    monkeypatch.setattr(_writers, "_write", late)


def keep(value, name="c.pt"):
    """As careful scripts do."""
    with open("c.tmp", "wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace("c.tmp", name)


def size(path):
    """Past our own way to the file."""
    return getattr(os.stat, "__wrapped__", os.stat)(path).st_size


def test_the_file_is_the_same_byte_for_byte_and_nobody_waited(turn, slowly):
    keep(VALUE)
    expected = Path("c.pt").read_bytes()
    keep([0])
    before = size("c.pt")
    hand = turn(EDIT)
    keep(VALUE)
    assert size("c.pt") == before != len(expected)
    assert Path("c.pt").read_bytes() == expected
    assert hand.applied == {"checkpoint.asynchronous": 1}
    assert os.listdir() == ["c.pt"]


def test_again_and_again(turn):
    hand = turn(EDIT)
    for number in range(6):
        keep([number])
    assert torch.load("c.pt") == [5]
    assert hand.applied == {"checkpoint.asynchronous": 6}


def more(file):
    file.write(b"more")


def lines(file):
    file.writelines([b"a\n", b"b\n"])


def end(file):
    file.write(str(file.tell()).encode())


def back(file):
    file.seek(2)
    file.write(b"x")


def last(file):
    file.seek(-3, os.SEEK_END)
    file.write(b"x")


def another(file):
    torch.save([1], file)


def asked(file):
    file.flush()
    file.write(str(os.fstat(file.fileno()).st_size).encode())


def asked_by_number(file):
    file.flush()
    file.write(str(os.stat(file.fileno()).st_size).encode())


def cut(file):
    file.truncate(10)


def unbuffered(file):
    with file.detach() as raw:
        raw.write(b"y")


GOES_ON = [more, lines, end, back, last, another, asked, asked_by_number, cut, unbuffered]


@pytest.mark.parametrize("goes_on", GOES_ON, ids=lambda one: one.__name__)
def test_whoever_goes_on_with_it_goes_on_at_its_end(turn, slowly, goes_on):
    def whole():
        file = open("c.pt", "wb")
        torch.save(VALUE, file)
        goes_on(file)
        if goes_on is not unbuffered:
            assert not file.closed
            file.close()
        return Path("c.pt").read_bytes()

    expected = whole()
    hand = turn(EDIT)
    assert whole() == expected
    assert hand.applied == {"checkpoint.asynchronous": 1}
    assert not hand.declined


def headed():
    file = open("c.pt", "wb")
    file.write(b"head")
    return file


def unnamed():
    file = open("c.pt", "wb")
    os.unlink("c.pt")
    return file


def linked():
    file = open("c.pt", "wb")
    os.link("c.pt", "other.pt")
    return file


def opened_again():
    file = open("c.pt", "wb")
    os.unlink("c.pt")
    Path("c.pt").write_bytes(b"")
    return file


AS_EVER = {
    "a head": headed,
    "no name": unnamed,
    "two names": linked,
    "another file of its name": opened_again,
    "appended": lambda: open("c.pt", "ab"),
    "also read": lambda: open("c.pt", "w+b"),
    "without a buffer": lambda: open("c.pt", "wb", buffering=0),
    "a number": lambda: open(os.open("c.pt", os.O_WRONLY | os.O_CREAT), "wb"),
    "of a temporary name": lambda: tempfile.NamedTemporaryFile(dir="."),
    "memory": io.BytesIO,
}


@pytest.mark.parametrize("name", AS_EVER)
def test_other_files_are_written_as_ever(turn, name):
    hand = turn(EDIT)
    with AS_EVER[name]() as file:
        torch.save(VALUE, file)
        assert file.tell() > 100
    assert not hand.applied
    assert not hand.declined


def killed(monkeypatch):
    monkeypatch.setattr(_writers, "_write", lambda *_: os.kill(os.getpid(), signal.SIGKILL))


def full(monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_opened.os, "fsync", fails)


@pytest.mark.parametrize("fails", [killed, full])
def test_the_last_checkpoint_stands_where_the_next_one_fails(turn, monkeypatch, capfd, fails):
    keep([0])
    turn(EDIT)
    with monkeypatch.context() as planted:
        fails(planted)
        with open("c.tmp", "wb") as file:
            torch.save([1], file)
        os.replace("c.tmp", "c.pt")
        assert torch.load("c.pt") == [0]
    assert "could not be written" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match="could not be written"):
        keep([2])
    keep([3])
    assert torch.load("c.pt") == [3]


def test_who_goes_on_with_what_could_not_be_written_is_told(turn, monkeypatch):
    turn(EDIT)
    killed(monkeypatch)
    with open("c.pt", "wb") as file:
        torch.save(VALUE, file)
        with pytest.raises(OSError, match=r"c\.pt could not be written"):
            file.write(b"more")


def test_open_gives_what_it_gave(turn):
    plain = open("a", "wb"), open("b", "wb", 100)
    turn(EDIT)
    for file, before in zip((open("a", "wb"), io.open("b", "wb", 100)), plain, strict=True):
        assert isinstance(file, io.BufferedWriter)
        assert (file.name, file.mode) == (before.name, before.mode)
        for one in (file, before):
            one.write(b"x" * 60)
        file.write(b"x" * 60)
        with file, before:
            assert (file.tell(), size(file.name) > 0) == (120, before.name == "b")
    with open("a", "rb") as read, open("a") as text:
        assert (type(read), type(text)) == (io.BufferedReader, io.TextIOWrapper)
    with pytest.raises(FileNotFoundError):
        open("nowhere/a", "wb")
