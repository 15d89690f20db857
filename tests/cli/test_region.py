"""Where the live view is drawn, and where there is none."""

import os
from types import SimpleNamespace

import pytest

from whyidle.cli import _live_view


@pytest.mark.parametrize(
    ("quiet", "off", "term", "tty"),
    [
        (True, False, "xterm", True),
        (False, True, "xterm", True),
        (False, False, "dumb", True),
        (False, False, "xterm", False),
    ],
)
def test_where_nobody_looks_there_is_none(monkeypatch, quiet, off, term, tty):
    monkeypatch.setenv("TERM", term)
    assert not _live_view.is_wanted(quiet, off, SimpleNamespace(isatty=lambda: tty))


def test_a_region_writes_once_per_drawing_and_can_be_cleared_twice():
    reading, writing = os.pipe()
    region = _live_view.Region(writing, 2)
    region.clear_rows()
    region.draw_rows(["one", "two"], (80, 24))
    first = os.read(reading, 4096)
    assert first.startswith(b"\x1bD\x1bD\x1b[2A\x1b7\x1b[1;22r")
    assert first.endswith(b"\x1b8")
    region.draw_rows(["one", "two"], (80, 24))
    assert not os.read(reading, 4096).startswith(b"\x1bD")
    region.clear_rows()
    region.clear_rows()
    assert os.read(reading, 4096).startswith(b"\x1b7\x1b[r")
    os.close(reading)
    region.draw_rows(["gone"], (80, 24))
    os.close(writing)
