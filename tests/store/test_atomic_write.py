"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.store import atomic_write
from whyidle.store.atomic_write import write_atomic


def test_replaces_and_keeps_the_mode(tmp_path: Path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_devices_are_written_to(tmp_path: Path):
    write_atomic(Path("/dev/null"), b"gone")
    assert not Path("/dev/null").is_file()


def test_nothing_is_left_of_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_write.os, "fsync", full)
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "old"
