"""Shared memory in a trial, with real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from isolated import SHORT_S, environment, python

from whyidle.fix.isolation import Isolation, isolate, shared_memory

SHM = Path("/dev/shm")

pytestmark = pytest.mark.skipif(not SHM.is_dir(), reason="no /dev/shm here")


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Isolation]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    with isolate(tmp_path / "scratch") as guard:
        if guard.level != "namespaces":
            pytest.skip(f"no namespaces to be had here: {guard.why}")
        yield guard


@pytest.fixture(params=["landlock", "python"])
def fenced(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Isolation]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    with isolate(tmp_path / "scratch", best=request.param) as guard:
        if guard.level != request.param:
            pytest.skip(f"no {request.param} to be had here: {guard.why}")
        yield guard


@pytest.fixture
def staged() -> Iterator[Path]:
    """Data that somebody keeps in memory."""
    path = SHM / f"test-staged-{os.getpid()}"
    path.mkdir()
    (path / "data.bin").write_bytes(b"data")
    (SHM / f"{path.name}.flat").write_bytes(b"flat")
    yield path
    (SHM / f"{path.name}.flat").unlink()
    (path / "data.bin").unlink()
    path.rmdir()


def start(guard: Isolation, code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        guard.command([sys.executable, "-c", textwrap.dedent(code), *words]),
        env=environment(guard),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


WRITES = """
    import os, sys
    from pathlib import Path
    folder = Path(sys.argv[1])
    print((folder / "data.bin").read_bytes(), end=" ")
    (folder / "data.bin").write_bytes(b"overwritten")
    flat = folder.with_name(folder.name + ".flat")
    print(flat.read_bytes(), end=" ")
    flat.unlink()
    (folder.parent / "test-new").mkdir()
    print((folder / "data.bin").read_bytes(), flat.exists())
"""


def test_what_lies_there_is_read_and_not_changed(guard: Isolation, staged: Path):
    assert python(guard, WRITES, str(staged)) == "b'data' b'flat' b'overwritten' False\n"
    assert (staged / "data.bin").read_bytes() == b"data"
    assert staged.with_name(staged.name + ".flat").read_bytes() == b"flat"
    assert not (SHM / "test-new").exists()


LEAVES = """
    import mmap, multiprocessing, os, sys, time
    from multiprocessing import shared_memory

    def fill(name):
        block = shared_memory.SharedMemory(name)
        block.buf[:4] = b"full"
        block.close()

    block = shared_memory.SharedMemory("test_block", create=True, size=1 << 20)
    lock = multiprocessing.Lock()
    child = multiprocessing.get_context("fork").Process(target=fill, args=("test_block",))
    child.start()
    child.join()
    print(bytes(block.buf[:4]), os.path.exists("/dev/shm/test_block"), flush=True)
    time.sleep(60)
"""


def test_what_a_killed_job_leaves_there_is_gone(guard: Isolation):
    with start(guard, LEAVES) as child:
        assert child.stdout.readline() == "b'full' True\n"
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(SHORT_S)
    assert not (SHM / "test_block").exists()


def test_it_has_as_much_room_as_before(guard: Isolation):
    code = "import os; told = os.statvfs('/dev/shm'); print(told.f_blocks * told.f_frsize)"
    told = os.statvfs(SHM)
    assert python(guard, code) == f"{told.f_blocks * told.f_frsize}\n"


def test_our_own_folders_may_lie_there(staged: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for each in ("scratch", "real"):
        (staged / each).mkdir()
    with isolate(staged / "scratch", real=[staged / "real"]) as guard:
        if guard.level != "namespaces":
            pytest.skip(f"no namespaces to be had here: {guard.why}")
        code = "import sys; [open(f'{sys.argv[1]}/{each}x', 'w') for each in ('', 'real/')]"
        python(guard, code, str(staged))
    assert [each.name for each in (staged / "real").iterdir()] == ["x"]
    assert not (staged / "x").exists()
    (staged / "real" / "x").unlink()
    (staged / "real").rmdir()


def test_with_an_old_libc_what_lies_there_can_be_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, staged: Path
):
    monkeypatch.setattr(shared_memory, "glibc_version", lambda: (2, 31))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    code = f"""
        import os
        from multiprocessing import shared_memory
        for path in ("{staged}/data.bin", "{staged}.flat", "{staged}/new"):
            try:
                open(path, "r+b" if os.path.exists(path) else "wb")
            except OSError as error:
                print(error.errno, end=" ")
        block = shared_memory.SharedMemory(create=True, size=100)
        kind = [line.split() for line in open("/proc/mounts") if " /dev/shm " in line][-1][2]
        print(open("{staged}.flat").read(), open("{staged}/data.bin").read(), kind)
        os._exit(0)
    """
    with isolate(tmp_path / "scratch") as guard:
        if guard.level != "namespaces":
            pytest.skip(f"no namespaces to be had here: {guard.why}")
        assert python(guard, code) == "30 30 30 flat data tmpfs\n"


def test_where_cuda_s_service_runs_it_is_left_alone(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert [path for path, _ in shared_memory.shared_memory_mounts()] == ["/dev/shm"]
    (tmp_path / "control").touch()
    assert shared_memory.shared_memory_mounts() == []


def test_without_namespaces_what_lies_there_is_diverted(staged: Path, fenced: Isolation):
    code = WRITES.replace('(folder.parent / "test-new").mkdir()', "")
    assert python(fenced, code, str(staged)) == "b'data' b'flat' b'overwritten' False\n"
    assert (staged / "data.bin").read_bytes() == b"data"
    assert staged.with_name(staged.name + ".flat").read_bytes() == b"flat"


ATTACHES = """
    import sys
    from multiprocessing import shared_memory
    block = shared_memory.SharedMemory(sys.argv[1])
    print(bytes(block.buf[:4]))
    block.buf[:4] = b"new!"
    block.close()
    block.unlink()
"""


def test_a_block_of_somebody_else_s_is_not_written(staged: Path, fenced: Isolation):
    flat = staged.with_name(staged.name + ".flat")
    assert python(fenced, ATTACHES, flat.name) == "b'flat'\n"
    assert flat.read_bytes() == b"flat"


def test_without_namespaces_what_a_killed_job_leaves_is_removed(fenced: Isolation):
    """And what others of the same user's made meanwhile is not."""
    other = SHM / f"test-other-{os.getpid()}"
    left = "os.spawnlp(os.P_WAIT, 'touch', 'touch', f'/dev/shm/torch_{os.getpid()}_1_0'); print("
    code = LEAVES.replace("print(", left)
    with start(fenced, code) as child:
        assert child.stdout.readline() == "b'full' True\n"
        other.touch()
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(SHORT_S)
    try:
        assert not (SHM / "test_block").exists()
        assert (SHM / f"torch_{child.pid}_1_0").exists()
        fenced.close()
        assert not (SHM / f"torch_{child.pid}_1_0").exists()
        assert other.exists()
    finally:
        other.unlink()


STAGES = """
    import os, shutil, sqlite3, subprocess, sys, tempfile, time
    from pathlib import Path
    top, name = Path("/dev/shm"), sys.argv[1]
    Path("source").mkdir()
    Path("source", "one").write_text("1")
    shutil.copytree("source", top / f"{name}-tree" / "deep")
    os.chdir(top)
    Path(f"{name}-flat").write_text("flat")
    os.rename(f"{name}-flat", f"{name}-moved")
    os.symlink(sys.argv[2], f"{name}-link")
    sqlite3.connect(top / f"{name}-base").execute("create table t (x)")
    child = f"import os; os.close(os.open('{name}-child', os.O_CREAT | os.O_WRONLY))"
    subprocess.run([sys.executable, "-c", child], check=True)
    tempfile.mkdtemp(prefix=name, dir=top)
    Path(f"{name}-again").mkdir()
    Path(f"{name}-again").rmdir()
    print(len([each for each in os.listdir() if each.startswith(name)]), flush=True)
    time.sleep(60)
"""


def test_without_namespaces_nothing_of_what_a_job_stages_is_there(fenced: Isolation, staged: Path):
    """Half a copy would be taken for a whole one later."""
    name = f"test-stages-{os.getpid()}"
    try:
        with start(fenced, STAGES, name, str(staged)) as child:
            assert child.stdout.readline() == "6\n"
            os.killpg(child.pid, signal.SIGKILL)
            child.wait(SHORT_S)
        assert not list(SHM.glob(f"{name}*"))
        assert (staged / "data.bin").read_bytes() == b"data"
    finally:
        for each in SHM.glob(f"{name}*"):
            each.unlink() if each.is_file() or each.is_symlink() else shutil.rmtree(each)


def test_with_landlock_devices_are_written_and_not_made(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    with isolate(tmp_path / "scratch", best="landlock") as guard:
        if guard.level != "landlock":
            pytest.skip(f"no Landlock to be had here: {guard.why}")
        script = "echo x > /dev/null && ! touch /dev/test-file 2>&- && ! mkdir /dev/test 2>&-"
        done = subprocess.run(guard.command(["sh", "-c", script]), timeout=SHORT_S, check=False)
    assert done.returncode == 0
    assert not Path("/dev/test-file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could change them")
def test_the_machine_s_settings_cannot_be_changed(guard: Isolation):
    code = """
        import os
        for path in ("/proc/sys/vm/swappiness", "/sys/kernel/mm/transparent_hugepage/enabled"):
            try:
                open(path, "r+").close()
            except OSError as error:
                print(error.errno)
        open("/proc/self/oom_score_adj", "r+").close()
        open("/dev/null", "w").close()
    """
    assert python(guard, code) == "30\n30\n"


MAKER = """
    import subprocess, sys
    from pathlib import Path
    from whyidle.fix.isolation import isolate

    Path(sys.argv[1]).mkdir()
    with isolate(Path(sys.argv[1]), best=sys.argv[2]) as guard:
        subprocess.run(guard.command(["sh", "-c", "echo $$; exec sleep 50"]))
"""


@pytest.mark.parametrize("level", ["namespaces", "landlock", "python"])
def test_a_command_ends_with_its_maker(tmp_path: Path, monkeypatch, level: str):
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-c", textwrap.dedent(MAKER), str(tmp_path / "scratch"), level]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as maker:
        job = psutil.Process(int(maker.stdout.readline()))
        assert job.is_running()
        maker.kill()
        maker.wait(SHORT_S)
        deadline = time.monotonic() + 5
        while runs(job) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not runs(job)


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended; somebody else may have to notice that yet."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
