from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest
from written import document, steps, write

from whyidle.errors import InputError, NotATraceError
from whyidle.readers._files import helper_process as _helper_process
from whyidle.readers._files import parallel_load as _parallel_load
from whyidle.readers._files.parallel_load import load_all
from whyidle.readers._files.recording_search import find_recordings


@pytest.fixture
def ranks(tmp_path):
    for rank in range(5):
        write(tmp_path / f"rank{rank}.json.gz", document(steps(20 + rank)))
    return tmp_path


@pytest.fixture(params=[0, 1], ids=["alone", "helped"])
def helpers(request):
    return request.param


def test_the_order_is_kept(ranks, helpers):
    found = load_all(find_recordings(ranks), helpers=helpers)
    assert [timeline.rank for timeline in found] == [0, 1, 2, 3, 4]
    assert [len(timeline.host) for timeline in found] == [40, 42, 44, 46, 48]


def _only_for_helpers(following):
    def next_job(waiting):
        if threading.current_thread() is threading.main_thread():
            waiting and threading.Event().wait(0.01)
            return None
        return following(waiting)

    return next_job


def _plain(value):
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tobytes()
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def test_one_bad_file_is_left_out_and_told(ranks, helpers):
    write(ranks / "rank2.json.gz", b"{}")
    origins = [(ranks / f"rank{i}.json.gz", None) for i in range(5)]
    found = load_all(origins, helpers=helpers)
    assert [timeline.rank for timeline in found] == [0, 1, 3, 4]
    assert "not read" in found[0].source.notes[0]
    assert "rank2" in found[0].source.notes[0]


def test_only_bad_files_raise_the_first_error(tmp_path, helpers):
    files = [write(tmp_path / name, b"{}") for name in ("a.json", "b.json")]
    with pytest.raises(NotATraceError, match=r"a\.json"):
        load_all([(path, None) for path in files], helpers=helpers)


def test_a_helper_that_cannot_start_is_no_loss(ranks, monkeypatch):
    # injected: a helper that ends at once
    monkeypatch.setattr(_helper_process, "_START", "raise SystemExit({path!r})")
    assert len(load_all(find_recordings(ranks), helpers=1)) == 5


def test_nothing_to_read():
    assert load_all([]) == []


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError):
        load_all([(tmp_path / "none.json", None)])


def test_progress_adds_up(ranks, helpers):
    seen = []
    load_all(
        find_recordings(ranks), lambda done, total: seen.append((done, total)), helpers=helpers
    )
    total = sum(path.stat().st_size for path in ranks.iterdir())
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_an_interrupt_leaves_no_process(ranks, monkeypatch):
    started = []
    popen = _helper_process.subprocess.Popen
    monkeypatch.setattr(
        _helper_process.subprocess,
        "Popen",
        lambda *a, **k: started.append(popen(*a, **k)) or started[-1],
    )

    def interrupt(job, meter):
        while not started:
            pass
        raise KeyboardInterrupt

    monkeypatch.setattr(_parallel_load, "_load_here", interrupt)  # injected: Ctrl-C while it reads
    with pytest.raises(KeyboardInterrupt):
        load_all(find_recordings(ranks), helpers=1)
    assert all(process.poll() is not None for process in started)
