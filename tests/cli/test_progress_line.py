"""The progress line shows only to somebody who watches, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import io

import pytest

from whyidle.cli import _progress_line
from whyidle.cli._progress_line import Progress


class Watched(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(_progress_line, "QUIET_S", 0.0)
    monkeypatch.setattr(_progress_line, "EVERY_S", 0.0)
    return Watched()


def test_draws_and_wipes(stream: Watched):
    with Progress(quiet=False, stream=stream) as progress:
        progress(1, 2)
        progress.show_stage("one thing")
    assert "50%" in stream.getvalue()
    assert "one thing" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_wipes_after_an_error(stream: Watched):
    progress = Progress(quiet=False, stream=stream)
    with contextlib.suppress(KeyError), progress:
        progress(0, 0)
        raise KeyError
    assert stream.getvalue().endswith("\r\x1b[K")


def test_silent_when_quiet_short_or_unwatched(stream: Watched, monkeypatch: pytest.MonkeyPatch):
    with Progress(quiet=True, stream=stream) as progress:
        progress(1, 2)
    monkeypatch.setattr(_progress_line, "QUIET_S", 60.0)
    with Progress(quiet=False, stream=stream) as progress:
        progress(1, 2)
    assert stream.getvalue() == ""
    monkeypatch.undo()
    unwatched = io.StringIO()
    with Progress(quiet=False, stream=unwatched) as progress:
        progress(1, 2)
    assert unwatched.getvalue() == ""
