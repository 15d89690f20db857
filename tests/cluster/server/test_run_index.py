"""The index of runs holds nothing that the stores do not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.cluster.server.run_index import RunFilter, RunIndex
from whyidle.store.run_store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "index.sqlite"


def found(index: RunIndex, **wanted: object) -> list[str]:
    index.refresh(force=True)
    runs, total = index.find_runs(RunFilter(**wanted))  # type: ignore[arg-type]
    assert total == len(runs)
    return [run.command.split()[1].strip("'") for run in runs]


def test_runs_are_found_by_words_state_and_time(path: Path, store: Store):
    index = RunIndex(path, {"a": store})
    assert found(index)[1:] == ["starved.py", "healthy.py"]
    assert found(index, words=["STARVED.py"]) == ["starved.py"]
    assert found(index, words=["a100", "healthy"]) == ["healthy.py"]
    assert found(index, words=["%%%"]) == [], "a sign of LIKE is a sign"
    assert found(index, state="saturated") == ["healthy.py"]
    assert found(index, since="2026-11-20T13:30:00+00:00")[1:] == []
    assert found(index, until="2026-11-20T12:30:00+00:00") == ["healthy.py"]
    assert found(index, store="b") == []
    assert index.count_runs("state") == {"saturated": 1, "starved": 2}
    index.close()


def test_it_follows_the_store(path: Path, store: Store):
    index = RunIndex(path, {"a": store})
    assert len(found(index)) == 3
    newest = store.find_run("last")
    store.pin_run(newest)
    index.refresh(force=True)
    assert [run.pinned for run in index.find_runs(RunFilter())[0]] == [True, False, False]
    store.pin_run(newest, pinned=False)
    store.delete_run(newest)
    store.begin_run(["python", "new.py"])
    assert found(index) == ["new.py", "starved.py", "healthy.py"]
    index.close()


@pytest.mark.parametrize("damage", [b"no database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_index_is_made_again(path: Path, store: Store, damage: bytes):
    index = RunIndex(path, {"a": store})
    index.refresh()
    index.close()
    for one in path.parent.iterdir():
        one.unlink()
    path.write_bytes(damage)
    again = RunIndex(path, {"a": store})
    assert len(found(again)) == 3
    again.close()


def test_a_run_that_cannot_be_read_is_listed(path: Path, store: Store):
    broken = store.find_run("last").path
    (broken / "meta.json").write_text("{")
    index = RunIndex(path, {"a": store})
    index.refresh()
    first = index.find_runs(RunFilter())[0][0]
    assert (first.state, first.id) == ("broken", broken.name)
    assert first.broken
    index.close()


def test_a_store_that_is_left_out_is_forgotten(path: Path, store: Store, tmp_path: Path):
    index = RunIndex(path, {"a": store, "b": Store(tmp_path / "none")})
    assert len(found(index)) == 3
    index.close()
    again = RunIndex(path, {"b": Store(tmp_path / "none")}, rebuild=False)
    assert found(again) == []
    again.close()
