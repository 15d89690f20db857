"""The index of runs holds nothing that the stores do not hold."""

from __future__ import annotations

from whyidle.cluster.server.run_index import RunFilter, RunIndex
from whyidle.store.run_store import Store


def found(index: RunIndex, **wanted: object) -> list[str]:
    index.refresh(force=True)
    runs, total = index.find_runs(RunFilter(**wanted))  # type: ignore[arg-type]
    assert total == len(runs)
    return [run.command.split()[1].strip("'") for run in runs]


def test_runs_are_found_by_words_state_and_time(store: Store):
    index = RunIndex({"a": store})
    assert found(index)[1:] == ["starved.py", "healthy.py"]
    assert found(index, words=["STARVED.py"]) == ["starved.py"]
    assert found(index, words=["a100", "healthy"]) == ["healthy.py"]
    assert found(index, words=["%%%"]) == []
    assert found(index, state="saturated") == ["healthy.py"]
    assert found(index, since="2026-11-20T13:30:00+00:00")[1:] == []
    assert found(index, store="b") == []
    assert index.count_states() == {"saturated": 1, "starved": 2}


def test_it_follows_the_store(store: Store):
    index = RunIndex({"a": store})
    assert len(found(index)) == 3
    newest = store.find_run("last")
    store.pin_run(newest)
    index.refresh(force=True)
    assert [run.pinned for run in index.find_runs(RunFilter())[0]] == [True, False, False]
    store.pin_run(newest, pinned=False)
    store.delete_run(newest)
    store.begin_run(["python", "new.py"])
    assert found(index) == ["new.py", "starved.py", "healthy.py"]


def test_a_run_that_cannot_be_read_is_listed(store: Store):
    broken = store.find_run("last").path
    (broken / "meta.json").write_text("{")
    index = RunIndex({"a": store})
    index.refresh()
    first = index.find_runs(RunFilter())[0][0]
    assert (first.state, first.id) == ("broken", broken.name)
    assert first.broken
