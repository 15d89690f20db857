"""The run store."""

from __future__ import annotations

import errno
import os
import stat
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from imagined_jobs import healthy
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.errors import StoreError
from whyidle.model.diagnosis import Attribution, Diagnosis
from whyidle.store.document import read_diagnosis
from whyidle.store.entry import DIAGNOSIS, META, RECORDING
from whyidle.store.run_store import Store

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return diagnose_job([healthy().timeline()])


def failed(diagnosis: Diagnosis) -> Diagnosis:
    """As of a command that ended with an error before anything could be seen of it."""
    gone = dict.fromkeys(msgspec.structs.asdict(diagnosis.attribution), 0.0) | {"unknown": 1.0}
    told = msgspec.structs.replace(
        diagnosis,
        run=msgspec.structs.replace(diagnosis.run, command=["python"], exit_status=1),
        steps=msgspec.structs.replace(diagnosis.steps, detected_by=None),
        attribution=Attribution(**gone),
        findings=[],
    )
    assert told.command_failed
    return told


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "deep" / "store")


def test_what_is_kept_comes_back(store: Store, diagnosis: Diagnosis):
    entry = store.add_run(diagnosis)
    assert store.read_diagnosis(store.find_run("last")) == diagnosis
    assert store.find_run(diagnosis.run.id).id == entry.id
    assert {path.name for path in entry.path.iterdir()} == {DIAGNOSIS, META}
    assert (store.root / ".gitignore").read_text().endswith("*\n")


def test_ids_are_unique_and_sort_by_time(store: Store, diagnosis: Diagnosis):
    same = [store.add_run(diagnosis, now=NOON).id for _ in range(3)]
    later = store.add_run(diagnosis, now=NOON + timedelta(seconds=1)).id
    assert len(set(same)) == 3
    assert [entry.id for entry in store.list_runs()] == [*same, later]
    assert store.find_run("last~3").id == same[0]
    assert store.find_run(later[:15]).id == later


def test_writers_at_the_same_moment_do_not_collide(store: Store, diagnosis: Diagnosis):
    threads = [
        threading.Thread(target=lambda: [store.add_run(diagnosis, now=NOON) for _ in range(5)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = store.list_runs()
    assert len(entries) == 20
    assert not [entry.broken for entry in entries if entry.broken]


def test_an_unfinished_run_is_not_seen(store: Store, diagnosis: Diagnosis):
    store.add_run(diagnosis)
    (store.folder / ".20260101-000000-000000").mkdir()
    assert len(store.list_runs()) == 1


def test_ambiguous_and_unknown_names(store: Store, diagnosis: Diagnosis):
    for second in range(2):
        store.add_run(diagnosis, now=NOON + timedelta(seconds=second))
    for name in ("2026", "x", "", "last~2"):
        with pytest.raises(StoreError):
            store.find_run(name)


def test_corrupt_entries_are_listed(store: Store, diagnosis: Diagnosis):
    entry = store.add_run(diagnosis)
    (entry.path / META).write_bytes(b"\xff{")
    (store.folder / "empty").mkdir()
    assert [bool(entry.broken) for entry in store.list_runs()] == [True, True]
    with pytest.raises(StoreError, match="cannot be read"):
        store.pin_run(store.list_runs()[0])
    store.delete_run(store.find_run("empty"))
    assert len(store.list_runs()) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff", b'{"schema":"whyidle/diagnosis/9"}']
)
def test_no_diagnosis(tmp_path: Path, content: bytes):
    path = tmp_path / "d.json"
    path.write_bytes(content)
    with pytest.raises(StoreError):
        read_diagnosis(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(store: Store, diagnosis: Diagnosis):
    store.root.mkdir(parents=True)
    store.root.chmod(0o500)
    with pytest.raises(StoreError, match="--no-store"):
        store.add_run(diagnosis)


def test_a_file_in_the_way(tmp_path: Path, diagnosis: Diagnosis):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write"):
        Store(tmp_path / "file").add_run(diagnosis)
    with pytest.raises(StoreError, match="Cannot read"):
        Store(tmp_path / "file").list_runs()


def test_a_watched_run_is_listed_while_it_is_recorded_and_after(store: Store, diagnosis: Diagnosis):
    entry = store.begin_run(["python", "train.py"], now=NOON)
    assert (entry.path / RECORDING).is_dir()
    (listed,) = store.list_runs()
    assert listed.broken is None
    assert listed.meta
    assert (listed.meta.state, listed.meta.command) == ("recording", ["python", "train.py"])
    with pytest.raises(StoreError):
        store.read_diagnosis(listed)
    (entry.path / RECORDING / "1.spans").write_bytes(b"evidence")
    done = store.complete_run(listed, diagnosis)
    (listed,) = store.list_runs()
    assert listed == done
    assert listed.meta
    assert listed.meta.state == diagnosis.verdict.state
    assert listed.meta.headline == diagnosis.verdict.headline
    assert listed.meta.command == ["python", "train.py"]
    assert listed.bytes == (entry.path / DIAGNOSIS).stat().st_size
    assert store.read_diagnosis(listed) == diagnosis
    assert (entry.path / RECORDING / "1.spans").read_bytes() == b"evidence"


def test_two_watched_runs_of_one_moment_are_two(store: Store):
    assert store.begin_run(["a"], now=NOON).id != store.begin_run(["b"], now=NOON).id


def test_a_watched_run_that_cannot_be_completed_keeps_its_evidence(
    store: Store, diagnosis: Diagnosis
):
    entry = store.begin_run(["a"])
    (entry.path / DIAGNOSIS).mkdir()
    with pytest.raises(StoreError, match="Cannot write"):
        store.complete_run(entry, diagnosis)
    (listed,) = store.list_runs()
    assert listed.meta
    assert listed.meta.state == "recording"


def test_a_command_that_failed_at_once_is_kept_and_passed_over(store: Store, diagnosis: Diagnosis):
    def watch(second: int, told: Diagnosis) -> str:
        entry = store.begin_run(["python", "train.py"], now=NOON + timedelta(seconds=second))
        return store.complete_run(entry, told).id

    failing = failed(diagnosis)
    only = watch(0, failing)
    assert store.find_run("last").id == only  # there is no other
    trained = [watch(1, diagnosis), watch(3, diagnosis)]
    between, newest = watch(2, failing), watch(4, failing)
    assert [store.find_run(name).id for name in ("last", "last~1")] == trained[::-1]
    with pytest.raises(StoreError, match="no run"):
        store.find_run("last~2")
    assert [entry.id for entry in store.list_runs() if entry.has_failed] == [only, between, newest]
    assert store.find_run(newest).id == newest


def test_no_secret_of_a_command_is_stored(tmp_path: Path, diagnosis: Diagnosis):
    command = ["python", "train.py", "--hub-token", "s3cret", "--db=postgres://me:s3cret@host/x"]
    run = msgspec.structs.replace(diagnosis.run, command=command, job="train.py hf_" + "s3cret" * 5)
    secret = msgspec.structs.replace(diagnosis, run=run)
    store = Store(tmp_path)
    store.add_run(secret)
    store.complete_run(store.begin_run(command), secret)
    assert len(store.list_runs()) == 2
    for path in tmp_path.rglob("*.json"):
        assert "s3cret" not in path.read_text(), path


def test_a_new_store_is_private_whatever_the_umask(tmp_path: Path, diagnosis: Diagnosis):
    before = os.umask(0)
    try:
        store = Store(tmp_path / "new")
        entry = store.add_run(diagnosis)
        watched = store.complete_run(store.begin_run(["train.py"]), diagnosis)
    finally:
        os.umask(before)
    for run in (entry, watched):
        assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
        files = [path for path in run.path.iterdir() if path.is_file()]
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(store.root.stat().st_mode) == stat.S_IMODE(store.folder.stat().st_mode)
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700


def test_new_runs_are_as_open_as_their_folder(tmp_path: Path, diagnosis: Diagnosis):
    store = Store(tmp_path / "team")
    store.prepare_folder()
    store.folder.chmod(0o2750)
    before = os.umask(0o077)
    try:
        run = store.add_run(diagnosis)
    finally:
        os.umask(before)
    assert stat.S_IMODE(run.path.stat().st_mode) & 0o777 == 0o750
    assert stat.S_IMODE((run.path / "meta.json").stat().st_mode) == 0o640


def test_nothing_is_left_on_a_full_disk(tmp_path: Path, diagnosis: Diagnosis, monkeypatch):
    store = Store(tmp_path / "store")
    store.add_run(diagnosis)

    def fill(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", fill)
    for write in (lambda: store.add_run(diagnosis), lambda: store.begin_run(["train.py"])):
        with pytest.raises(StoreError, match="No space left"):
            write()
    assert len([*store.folder.iterdir()]) == 1
