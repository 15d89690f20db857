from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from written import document, steps, write

from whyidle.errors import InputError, NotATraceError
from whyidle.readers._files.parallel_load import load_all, map_apart
from whyidle.readers._files.recording_search import find_recordings


@pytest.fixture
def ranks(tmp_path):
    for rank in range(5):
        write(tmp_path / f"rank{rank}.json.gz", document(steps(20 + rank)))
    return tmp_path


@pytest.fixture(params=[1, 2], ids=["here", "apart"])
def processes(request):
    return request.param


def test_the_order_is_kept(ranks, processes):
    found = load_all(find_recordings(ranks), processes=processes)
    assert [timeline.rank for timeline in found] == [0, 1, 2, 3, 4]
    assert [len(timeline.host) for timeline in found] == [40, 42, 44, 46, 48]


def test_one_bad_file_is_left_out_and_told(ranks, processes):
    write(ranks / "rank2.json.gz", b"{}")
    origins = [(ranks / f"rank{i}.json.gz", None) for i in range(5)]
    found = load_all(origins, processes=processes)
    assert [timeline.rank for timeline in found] == [0, 1, 3, 4]
    assert "not read" in found[0].source.notes[0]
    assert "rank2" in found[0].source.notes[0]


def test_only_bad_files_raise_the_first_error(tmp_path, processes):
    files = [write(tmp_path / name, b"{}") for name in ("a.json", "b.json")]
    with pytest.raises(NotATraceError, match=r"a\.json"):
        load_all([(path, None) for path in files], processes=processes)


def test_nothing_to_read():
    assert load_all([]) == []


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError):
        load_all([(tmp_path / "none.json", None)])


def test_progress_adds_up(ranks, processes):
    seen = []
    load_all(
        find_recordings(ranks), lambda done, total: seen.append((done, total)), processes=processes
    )
    total = sum(path.stat().st_size for path in ranks.iterdir())
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


_HERE = os.getpid()


def _die_elsewhere(origin):
    if origin[1] == "last" and os.getpid() != int(origin[0]):
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def test_what_a_process_that_died_leaves_is_read_here():
    origins = [(str(_HERE), member) for member in ("first", "last")]
    assert list(map_apart(_die_elsewhere, origins, 2))[1] == _HERE


def test_a_script_without_a_guard_is_not_run_again(ranks, tmp_path):
    code = (
        "import sys; from pathlib import Path; print('once')\n"
        "from whyidle.readers._files.parallel_load import load_all\n"
        "from whyidle.readers._files.recording_search import find_recordings\n"
        "print(len(load_all(find_recordings(Path(sys.argv[1])), processes=2)))"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script, ranks], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["once", "5"]


@pytest.mark.real_processes("a process ends when it notices that its parent has")
def test_processes_end_with_their_parent():
    code = (
        "import time; from whyidle.readers._files.parallel_load import map_apart\n"
        "list(map_apart(time.sleep, [60, 60], 2))"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        while len(started := children.read_text().split()) < 3:  # with multiprocessing's tracker
            time.sleep(0.01)
        time.sleep(0.5)
        parent.kill()
    until = time.monotonic() + 10
    while any(Path("/proc", pid).exists() for pid in started):
        assert time.monotonic() < until
        time.sleep(0.02)
