"""Where what a trial writes is kept, and when there is too little room for more."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from isolated import python

from whyidle.fix.isolation import RoomWatch, disk_space, isolate

GB = 10**9


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """One that has as much room as the test says."""
    found = SimpleNamespace(f_frsize=1, f_bavail=0, f_blocks=0)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    return found


@pytest.mark.parametrize(
    ("whole", "begun", "enough", "short"),
    [
        (1000 * GB, 400 * GB, 60 * GB, 40 * GB),
        (10 * GB, 8 * GB, 2 * GB, GB),
        (1000 * GB, 10 * GB, 6 * GB, 4 * GB),
        (GB, GB // 2, GB // 3, GB // 5),
    ],
    ids=["a share of it", "a GiB", "half of what was free", "half of less than a GiB"],
)
def test_half_may_be_taken_and_more_where_enough_is_left(
    disk: SimpleNamespace, whole: int, begun: int, enough: int, short: int
):
    disk.f_blocks, disk.f_bavail = whole, begun
    stock = RoomWatch([Path.cwd()])
    assert stock.describe_shortage() == ""
    disk.f_bavail = enough
    assert stock.describe_shortage() == ""
    disk.f_bavail = short
    assert stock.describe_shortage() != ""


def test_it_is_told_where_there_is_no_room(disk: SimpleNamespace, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(disk_space.tempfile, "gettempdir", lambda: str(tmp_path))
    disk.f_blocks, disk.f_bavail = 100 * GB, 50 * GB
    (tmp_path / "arm").mkdir()
    stock = RoomWatch([tmp_path / "arm"])
    disk.f_bavail = 3 * GB
    assert (
        f"stored in {tmp_path}, which has 3.0 GB left of 50.0 GB at the start"
        in stock.describe_shortage()
    )


@pytest.fixture
def memory() -> Path:
    place = Path("/dev/shm")
    if not place.is_dir() or not disk_space._in_memory(place):
        pytest.skip("no folder in memory here")
    return place


def test_disks_come_before_memory(memory: Path, tmp_path: Path):
    if disk_space._in_memory(tmp_path):
        pytest.skip("temporary files are in memory here")
    others = [tmp_path / "one", tmp_path / "two"]
    for each in others:
        each.mkdir()
    assert disk_space.best_first([memory, *others]) == [*others, memory]


@pytest.mark.parametrize("best", ["namespaces", "landlock", "python"])
def test_what_is_written_is_kept_on_a_disk_where_one_has_room(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: str
):
    if all(disk_space._in_memory(Path(each)) for each in disk_space.roomy_places()):
        pytest.skip("no other place here")
    monkeypatch.chdir(tmp_path)
    scratch = memory / f"test-scratch-{os.getpid()}"
    scratch.mkdir()
    with isolate(scratch, best=best) as guard:
        if guard.level != best:
            pytest.skip(f"no {best} to be had here: {guard.why}")
        python(guard, "open('x', 'w').write('x')")
        (kept,) = {
            Path(base, "x")
            for place in guard.places
            for base, _, names in os.walk(place)
            if base.endswith(f"/{tmp_path.name}") and "x" in names
        }
        assert not kept.is_relative_to(scratch)
        assert any(kept.is_relative_to(each) for each in guard.places)
    assert not scratch.exists()
