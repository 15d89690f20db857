"""Real isolated processes: what they write is gone, and nothing of the user's changed."""

from __future__ import annotations

import hashlib
import marshal
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from isolated import SHORT_S, python, run

from whyidle.fix.isolation import Isolation, isolate


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, in which the command is started."""
    folder = tmp_path / "project"
    (folder / "runs" / "old").mkdir(parents=True)
    (folder / "data.txt").write_text("data\n")
    (folder / "runs" / "old" / "last.pt").write_bytes(b"checkpoint")
    (folder / "keep.log").write_text("one\n")
    (folder / "link").symlink_to("data.txt")
    monkeypatch.chdir(folder)
    return folder


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file and folder below, with its kind, rights, time and content."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        told = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path)] = f"{told.st_mode:o} {told.st_mtime_ns} {content}"
    return found


@pytest.fixture
def guard(project: Path, tmp_path: Path) -> Iterator[Isolation]:
    (tmp_path / "real").mkdir()
    (tmp_path / "scratch").mkdir()
    with isolate(tmp_path / "scratch", real=[tmp_path / "real"]) as guard:
        yield guard


@pytest.fixture
def namespaces(guard: Isolation) -> Isolation:
    if guard.level != "namespaces":
        pytest.skip(f"no namespaces to be had here: {guard.why}")
    return guard


WRITES = """
    import os, shutil, sqlite3, subprocess, sys
    open("new.txt", "w").write("new")
    open("keep.log", "a").write("two")
    open("data.txt", "r+b").write(b"DATA")
    os.remove("runs/old/last.pt")
    os.makedirs("runs/next/deep")
    open("runs/next/deep/last.tmp", "wb").write(b"x" * 1000)
    os.rename("runs/next/deep/last.tmp", "runs/next/deep/last.pt")
    os.replace("runs/next/deep/last.pt", "runs/next/last.pt")
    os.chmod("keep.log", 0o600)
    os.utime("data.txt", (1, 1))
    os.symlink("new.txt", "other")
    base = sqlite3.connect("runs.db")
    base.execute("create table t (x)")
    base.execute("insert into t values (1)")
    base.commit()
    subprocess.run(["cp", "data.txt", "copy.txt"], check=True)
    subprocess.run(["rm", "link"], check=True)
    child = "open('child.txt', 'w').write(open('new.txt').read())"
    subprocess.run([sys.executable, "-c", child], check=True)
    shutil.rmtree("runs/old")
    print(open("keep.log").read().split(), open("copy.txt").read(), open("child.txt").read())
    rows = base.execute("select * from t").fetchall()
    print(sorted(os.listdir("runs")), os.path.exists("link"), rows)
"""


def test_a_job_reads_what_it_wrote_and_nothing_stays(namespaces: Isolation, project: Path):
    before = fingerprint(project)
    said = python(namespaces, WRITES).splitlines()
    assert said == ["['one', 'two'] DATA", " new", "['next'] False [(1,)]"]
    assert fingerprint(project) == before


def test_every_command_starts_from_the_same(namespaces: Isolation, project: Path):
    for _ in range(2):
        said = python(
            namespaces, "import os; print(os.path.exists('x')); open('x', 'w').write('x')"
        )
        assert said == "False\n"


def test_our_own_folder_is_written_for_good(namespaces: Isolation, tmp_path: Path):
    python(namespaces, f"open({str(tmp_path / 'real' / 'spans')!r}, 'w').write('told')")
    assert (tmp_path / "real" / "spans").read_text() == "told"


def test_other_places_are_covered_too(namespaces: Isolation, tmp_path: Path):
    outside = [
        tmp_path / "elsewhere",
        Path("/tmp/whyidle-isolation-test"),
        Path.home() / "whyidle-x",
    ]
    python(namespaces, f"for p in {[*map(str, outside)]!r}: open(p, 'w').write('x')")
    assert not any(each.exists() for each in outside)


def test_process_and_status_are_the_command_s_own(namespaces: Isolation, project: Path):
    command = [
        sys.executable,
        "-c",
        "import os; print(os.getpid(), os.getuid(), os.getcwd()); os._exit(7)",
    ]
    with subprocess.Popen(namespaces.command(command), stdout=subprocess.PIPE, text=True) as child:
        said = child.communicate(timeout=SHORT_S)[0].split()
    assert said == [str(child.pid), str(os.getuid()), str(project)]
    assert child.returncode == 7
    missing = run(namespaces, "no-such-program-anywhere")
    assert (missing.returncode, "no-such-program" in missing.stderr) == (127, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_command(namespaces: Isolation, number: signal.Signals):
    code = "import time; print('ready', flush=True); time.sleep(60)"
    words = namespaces.command([sys.executable, "-c", code])
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, start_new_session=True) as child:
        assert child.stdout.readline() == b"ready\n"
        os.killpg(child.pid, number)
        child.communicate(timeout=SHORT_S)
    assert child.returncode == -number


def test_a_broken_pipe_ends_a_program_as_it_would_anyway(namespaces: Isolation):
    done = run(namespaces, "sh", "-c", "sh -c 'kill -PIPE $$'; echo $?")
    assert done.stdout == f"{128 + signal.SIGPIPE}\n"


CONNECT = """
    import socket, time
    began = time.monotonic()
    for address in (("192.0.2.1", 80), ("203.0.113.1", 443)):
        try:
            socket.create_connection(address, timeout=5)
            print("connected")
        except OSError as error:
            print(type(error).__name__)
    assert time.monotonic() - began < 4
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5)
        print("itself")
    try:
        print(socket.getaddrinfo(socket.gethostname(), 1)[0][4][0] != "")
    except OSError as error:
        print(error)
"""


def test_nothing_leaves_the_machine_but_it_reaches_itself(namespaces: Isolation):
    assert python(namespaces, CONNECT).splitlines() == ["OSError", "OSError", "itself", "True"]


SENDS = """
import os, socket, subprocess, sys

def send(place):
    try:
        socket.create_connection(place, timeout=5)
    except OSError as error:
        print(type(error).__name__)

send(("192.0.2.1", 443))
send(("metrics.example.org", 443))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    try:
        sock.sendto(b"x", ("192.0.2.1", 53))
    except OSError as error:
        print(type(error).__name__)
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname(), timeout=5)
socket.getaddrinfo(socket.gethostname(), None)
if len(sys.argv) == 1:
    subprocess.run([sys.executable, __file__, "again"], check=True)
"""


def test_who_tried_to_send_what_where_is_told(namespaces: Isolation, project: Path):
    (project / "train.py").write_text(SENDS)
    done = run(namespaces, sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    line = f"{project / 'train.py'}:6"
    assert [each[:2] for each in namespaces.find_leaks()] == [
        ("connection to 192.0.2.1:443", line),
        ("connection to 192.0.2.1:53", f"{project / 'train.py'}:14"),
        ("connection to metrics.example.org:443", line),
    ]


def test_what_tries_to_send_without_python_is_told(namespaces: Isolation):
    send = "exec 3<>/dev/tcp/192.0.2.1/80"
    python(namespaces, f"import subprocess; subprocess.run(['bash', '-c', {send!r}])")
    assert [each.what for each in namespaces.find_leaks()] == [
        "connection or look-up of a name, by code other than Python"
    ]


def test_a_job_that_keeps_to_itself_leaves_nothing_to_tell(namespaces: Isolation, project: Path):
    python(namespaces, WRITES)
    assert namespaces.find_leaks() == []


def test_sockets_of_others_are_out_of_reach(namespaces: Isolation, tmp_path: Path):
    place = str(tmp_path / "daemon.sock")
    code = f"""
        import socket
        try:
            socket.socket(socket.AF_UNIX).connect({place!r})
            print("reached")
        except OSError as error:
            print(type(error).__name__)
    """
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(place)
        daemon.listen()
        assert python(namespaces, code) == "ConnectionRefusedError\n"


def test_a_write_that_no_overlay_can_take_is_told(namespaces: Isolation, project: Path):
    if not namespaces._backend._layout.read_only:
        pytest.skip("every place has an overlay")
    place = Path(namespaces._backend._layout.read_only[0], "whyidle-isolation-test")
    (project / "train.py").write_text(f"open({str(place)!r}, 'w')")
    assert run(namespaces, sys.executable, "train.py").returncode == 1
    assert not place.exists()
    told = (f"write to {place} refused", f"{project / 'train.py'}:1")
    assert told in [each[:2] for each in namespaces.find_leaks()]


def test_a_folder_that_is_gone_by_then_keeps_no_command_from_starting(
    namespaces: Isolation, tmp_path: Path
):
    """As others' folders for temporary files, where there is a mount beside them."""
    folder = tmp_path / "others"
    folder.mkdir()
    namespaces._backend._layout.overlays.append((str(folder), 0))
    words = namespaces.command(["true"])
    folder.rmdir()
    for each in (words, namespaces.command(["true"])):
        done = subprocess.run(each, capture_output=True, text=True, check=False, timeout=SHORT_S)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_goes_amid_the_mounts_keeps_no_command_from_starting(
    namespaces: Isolation, tmp_path: Path
):
    """An overlay above it has removed it by the time that it gets its own."""
    folder = tmp_path / "others"
    folder.mkdir()
    namespaces._backend._layout.overlays.append((str(folder), 0))
    words = namespaces.command(["true"])
    layers = marshal.loads(Path(words[words.index("true") - 1]).read_bytes())["overlay"]
    *above, _ = (each for each in layers if folder.is_relative_to(each[0]))
    upper = Path(above[-1][1]) / folder.relative_to(above[-1][0])
    upper.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(upper, stat.S_IFCHR)  # how an overlay marks what was removed
    except PermissionError:
        pytest.skip("a kernel that makes no such marks for users")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SHORT_S)
    assert (done.returncode, done.stderr) == (0, "")


def test_scratch_is_gone_whatever_the_job_left(project: Path, tmp_path: Path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with isolate(scratch) as guard:
        run(
            guard,
            "sh",
            "-c",
            "mkdir -p closed/in && touch closed/in/x && chmod 000 closed/in closed",
        )
        places = [scratch, *guard.places]
    assert not any(place.exists() for place in places)
    assert not (project / "closed").exists()


def test_what_a_job_leaves_running_keeps_no_hold(project: Path, tmp_path: Path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with isolate(scratch) as guard:
        words = guard.command(["sh", "-c", "(sleep 5; echo late > late.txt) >/dev/null 2>&1 &"])
        subprocess.run(words, check=True, timeout=SHORT_S)
    assert not scratch.exists()
    time.sleep(0)
    assert not (project / "late.txt").exists()
