"""Without namespaces: what Python writes is diverted by Python, and nothing else may be written."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from isolated import python, run

from whyidle.fix.isolation import Isolation, isolate, landlock, landlock_launcher
from whyidle.record.launcher import BOOT

KINDS = ("landlock", "python")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    plant(folder)
    monkeypatch.chdir(folder)
    return folder


def plant(folder: Path) -> None:
    (folder / "runs" / "old").mkdir(parents=True)
    (folder / "data.txt").write_text("data\n")
    (folder / "runs" / "old" / "last.pt").write_bytes(b"checkpoint")
    (folder / "keep.log").write_text("one\n")
    (folder / "link").symlink_to("data.txt")
    (folder / "runs" / "latest").symlink_to("old")


@pytest.fixture(params=KINDS)
def guard(request: pytest.FixtureRequest, project: Path, tmp_path: Path) -> Iterator[Isolation]:
    (tmp_path / "real").mkdir()
    (tmp_path / "scratch").mkdir()
    with isolate(tmp_path / "scratch", real=[tmp_path / "real"], best=request.param) as guard:
        if guard.level != request.param:
            pytest.skip(f"no {request.param} to be had here: {guard.why}")
        yield guard


def tree(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


WRITES = """
    import os, pathlib, pickle, shutil, sqlite3, subprocess, sys, tempfile
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
    base = sqlite3.connect("runs.db")
    base.execute("create table t (x)")
    base.execute("insert into t values (1)")
    base.commit()
    shutil.copy2("data.txt", "copy.txt")
    child = "open('child.txt', 'w').write(open('new.txt').read())"
    subprocess.run([sys.executable, "-c", child], check=True)
    shutil.rmtree("runs/old")
    pathlib.Path("p").mkdir()
    pathlib.Path("p", "q").write_text("q")
    tempfile.TemporaryFile().write(b"x")
    with tempfile.NamedTemporaryFile("w", dir="p", delete=False) as file:
        file.write("x")
    assert pickle.loads(pickle.dumps(os.rename)) is os.rename
    print(open("keep.log").read().split(), open("copy.txt").read(), open("child.txt").read())
    rows = base.execute("select * from t").fetchall()
    print(sorted(os.listdir("runs")), rows, os.stat("copy.txt").st_mtime)
    print(sorted(each.name for each in os.scandir() if each.is_dir()), len(os.listdir("p")))
"""


def test_a_job_reads_what_it_wrote_and_nothing_stays(guard: Isolation, project: Path):
    before = tree(project)
    said = python(guard, WRITES).splitlines()
    assert said == [
        "['one', 'two'] DATA",
        " new",
        "['latest', 'next'] [(1,)] 1.0",
        "['p', 'runs'] 2",
    ]
    assert tree(project) == before


DRIFT = """
import os, random, shutil, sys
from pathlib import Path

draw = random.Random(int(sys.argv[1]))
names = ["data.txt", "keep.log", "link", "runs", "runs/old", "runs/old/last.pt", "runs/latest",
         "runs/latest/last.pt", "a", "a/b", "a/b/c", "d", "runs/old/e", "runs/e"]

def see(path):
    try:
        if os.path.islink(path):
            return "link", os.readlink(path), os.path.exists(path)
        if os.path.isdir(path):
            return sorted(os.listdir(path)), sorted(each.name for each in os.scandir(path))
        return open(path).read() if os.path.exists(path) else None
    except OSError as error:
        return type(error).__name__

def write(path, mode):
    with open(path, mode) as file:
        file.write(f"<{step}>")
        return file.tell() if "+" not in mode else None

acts = {
    "write": lambda p, q: write(p, "w"),
    "append": lambda p, q: write(p, "a"),
    "new": lambda p, q: write(p, "x"),
    "edit": lambda p, q: write(p, "r+"),
    "remove": lambda p, q: os.remove(p),
    "rmdir": lambda p, q: os.rmdir(p),
    "rmtree": lambda p, q: shutil.rmtree(p, ignore_errors=True),
    "mkdir": lambda p, q: os.mkdir(p),
    "makedirs": lambda p, q: os.makedirs(p, exist_ok=True),
    "rename": lambda p, q: os.rename(p, q),
    "replace": lambda p, q: os.replace(p, q),
    "move": lambda p, q: shutil.move(p, q) and None,
    "copy": lambda p, q: shutil.copy(p, q) and None,
    "truncate": lambda p, q: os.truncate(p, 2),
    "symlink": lambda p, q: os.symlink(os.path.basename(p), q),
    "link": lambda p, q: os.link(p, q),
    "touch": lambda p, q: Path(p).touch(),
    "chmod": lambda p, q: os.chmod(p, 0o700) or os.stat(p).st_mode,
}
for step in range(80):
    act, p, q = draw.choice(sorted(acts)), draw.choice(names), draw.choice(names)
    try:
        result = acts[act](p, q)
    except (OSError, shutil.Error) as error:
        result = "error"  # which one may differ where several are true
    print(step, act, p, q, result)
for folder, folders, files in sorted(os.walk(".")):
    print(folder, sorted(folders), sorted(files))
print([(name, see(name)) for name in names])
"""


def test_a_job_sees_what_it_would_see_without_us(guard: Isolation, project: Path, tmp_path: Path):
    """Many random jobs, each on a copy of the project that it may change, and isolated."""
    script = tmp_path / "drift.py"
    script.write_text(DRIFT)
    before = tree(project)
    for seed in range(4):
        free = tmp_path / f"free-{seed}"
        plant(free)
        words = [sys.executable, str(script), str(seed)]
        expected = subprocess.run(words, cwd=free, capture_output=True, text=True, check=True)
        found = run(guard, *words)
        assert found.stdout.splitlines() == expected.stdout.splitlines(), seed
        assert tree(project) == before


SHARED_BY_WORKERS = """
import os, subprocess, sys, threading
from pathlib import Path

def read_on():
    while not done.is_set():
        assert Path("runs/old/last.pt").exists() and open("data.txt").read() == "data\\n"

done = threading.Event()
reader = threading.Thread(target=read_on)
reader.start()
child = "import sys; open(f'runs/old/{sys.argv[1]}', 'w').write(sys.argv[1])"
children = [subprocess.Popen([sys.executable, "-c", child, str(i)]) for i in range(6)]
Path("runs/old/mine").write_text("x")
assert not any(each.wait() for each in children)
done.set()
reader.join()
print(sorted(os.listdir("runs/old")))
"""


def test_processes_that_write_in_one_folder_lose_nothing(guard: Isolation, project: Path):
    (project / "train.py").write_text(SHARED_BY_WORKERS)
    done = run(guard, sys.executable, "train.py")
    expected = f"{['0', '1', '2', '3', '4', '5', 'last.pt', 'mine']}\n"
    assert (done.stdout, done.stderr) == (expected, "")
    assert [each.name for each in (project / "runs" / "old").iterdir()] == ["last.pt"]


LINKED_MEANWHILE = """
import os, subprocess, sys
os.makedirs("made/in")
open("made/in/x", "w").close()
swap = "import os; os.remove('made/in/x'); os.rmdir('made/in'); os.symlink('../runs', 'made/in')"
subprocess.run([sys.executable, "-c", swap], check=True)
try:
    open("made/in/keep.log", "w").write("x")
except PermissionError as error:
    print(error.filename == "made/in/keep.log")
"""


def test_a_folder_that_another_process_makes_a_link_leads_to_nothing_real(
    guard: Isolation, project: Path
):
    (project / "train.py").write_text(LINKED_MEANWHILE)
    before = tree(project)
    assert run(guard, sys.executable, "train.py").stdout == "True\n"
    assert tree(project) == before


FOLLOWING = """
import os
whole, root = os.path.abspath("link"), os.open("/", os.O_RDONLY)
os.link(whole, "second", src_dir_fd=root)  # so links are followed, by newer Pythons always
with open("second", "w") as file:
    file.write("new")
print(open("second").read())
"""


def test_a_second_name_of_a_link_leads_to_no_file_of_the_users(guard: Isolation, project: Path):
    (project / "train.py").write_text(FOLLOWING)
    before = tree(project)
    assert run(guard, sys.executable, "train.py").stdout == "new\n"
    assert tree(project) == before


@pytest.fixture
def with_landlock(guard: Isolation) -> Isolation:
    if guard.level != "landlock":
        pytest.skip("without Landlock programs write what they like")
    return guard


OTHERS = """
import subprocess, sys
for command in ("cp data.txt copy.txt", "echo x >> keep.log", "rm link", "mv data.txt moved.txt"):
    print(subprocess.run(["sh", "-c", command]).returncode != 0)
print(open("data.txt").read())
"""


def test_what_is_no_python_cannot_write_and_is_told(with_landlock: Isolation, project: Path):
    (project / "train.py").write_text(OTHERS)
    before = tree(project)
    done = run(with_landlock, sys.executable, "train.py")
    assert done.stdout.split() == ["True"] * 4 + ["data"], done.stderr
    assert tree(project) == before
    told = [("program " + each, f"{project / 'train.py'}:4") for each in ("cp", "echo", "mv", "rm")]
    assert [each[:2] for each in with_landlock.find_leaks()] == told


def test_files_that_c_code_opens_are_refused(with_landlock: Isolation, project: Path):
    code = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fopen.restype = ctypes.c_void_p
        print(libc.fopen(b"data.txt", b"w"), libc.unlink(b"keep.log"))
    """
    before = tree(project)
    assert python(with_landlock, code).split() == ["None", "-1"]
    assert tree(project) == before


def test_the_folder_for_temporary_files_has_a_short_name(guard: Isolation, tmp_path: Path):
    """A socket's name has room for 107 bytes; that of a worker takes 33 of them."""
    code = """
        import multiprocessing.connection, tempfile
        multiprocessing.connection.Listener(family="AF_UNIX")
        print(tempfile.mkdtemp())
    """
    said = python(guard, code).strip()
    assert len(said) < len(tempfile.gettempdir()) + 40
    assert not Path(said).is_relative_to(tmp_path)
    assert any(Path(said).is_relative_to(place) for place in guard.places)


def test_pipes_and_devices_are_left_alone(guard: Isolation, project: Path):
    if guard.level == "landlock":
        pytest.skip("a pipe in a folder of the user's is not to be written either")
    os.mkfifo(project / "pipe")
    code = """
        import os, threading
        reader = threading.Thread(target=lambda: print(open("pipe").read()))
        reader.start()
        open("pipe", "w").write("through")
        reader.join()
        open("/dev/null", "w").write("x")
    """
    assert python(guard, code).split() == ["through"]


SENDERS = """
import socket, subprocess
try:
    socket.create_connection(("192.0.2.1", 443), timeout=5)
except OSError:
    pass
subprocess.run(["bash", "send.sh"])
subprocess.run(["git", "push", "nowhere"], stderr=subprocess.DEVNULL)
subprocess.run(["git", "--version"], stdout=subprocess.DEVNULL)
subprocess.run("git push nowhere", shell=True, stderr=subprocess.DEVNULL)
"""

CONNECT = """
import socket, subprocess
for place in (("192.0.2.1", 443), ("metrics.example.org", 443)):
    try:
        socket.create_connection(place, timeout=5)
    except OSError as error:
        print(error.errno)
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname(), timeout=5)
"""


def test_python_connects_to_itself_only(guard: Isolation, project: Path):
    (project / "train.py").write_text(CONNECT)
    done = run(guard, sys.executable, "train.py")
    assert (done.returncode, done.stdout.split()) == (0, [str(errno.ENETUNREACH)] * 2), done.stderr
    assert [each[:2] for each in guard.find_leaks()] == [
        ("connection to 192.0.2.1:443", f"{project / 'train.py'}:5"),
        ("connection to metrics.example.org:443", f"{project / 'train.py'}:5"),
    ]


def test_programs_reach_no_service(with_landlock: Isolation, tracker: int):
    def reach(port: int) -> str:
        return run(with_landlock, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}").stderr

    if "Permission denied" not in (said := reach(443)):
        pytest.skip(f"a kernel whose Landlock knows no ports: {said}")
    assert "Permission denied" in reach(tracker)
    assert "refused" in reach(29512)


@pytest.fixture
def tracker() -> Iterator[int]:
    """The port of somebody who listens on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


TRACKS = """
import socket, sys, urllib.request
for reach in (
    lambda: socket.create_connection(("localhost", int(sys.argv[1])), timeout=5),
    lambda: urllib.request.urlopen("http://192.0.2.1/run", timeout=5),
):
    try:
        reach()
        print("reached")
    except OSError as error:
        print(getattr(error, "reason", error).errno)
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname(), timeout=5)
"""


def test_a_tracker_or_a_proxy_on_this_machine_is_out_of_reach(
    guard: Isolation, project: Path, tracker: int, monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{tracker}")
    monkeypatch.delenv("no_proxy", raising=False)
    (project / "train.py").write_text(TRACKS)
    done = run(guard, sys.executable, "train.py", str(tracker))
    assert done.stdout.split() == [str(errno.ECONNREFUSED), str(errno.ENETUNREACH)], done.stderr
    assert [tuple(each) for each in guard.find_leaks()] == [
        (f"connection to 127.0.0.1:{tracker}", f"{project / 'train.py'}:4", True),
        ("connection to 192.0.2.1:80", f"{project / 'train.py'}:5", True),
    ]


def test_ranks_meet_at_the_port_that_is_named_for_it(
    guard: Isolation, project: Path, tracker: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MASTER_PORT", str(tracker))
    code = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    python(guard, code, str(tracker))
    assert guard.find_leaks() == []


def test_where_the_kernel_knows_no_ports_programs_that_send_are_told_so(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As before Linux 6.7: the third version of Landlock, asked of a newer kernel."""
    text = landlock.FENCE.read_text()
    newest = "return system_call(CREATE, None,"
    assert newest in text
    (tmp_path / "landlock_launcher.py").write_text(
        text.replace(newest, "return 3 or system_call(CREATE, None,")
    )
    monkeypatch.setattr(landlock, "FENCE", tmp_path / "landlock_launcher.py")
    (tmp_path / "scratch").mkdir()
    (project / "train.py").write_text(SENDERS)
    (project / "send.sh").write_text("exec 3<>/dev/tcp/127.0.0.1/443")
    with isolate(tmp_path / "scratch", best="landlock") as guard:
        if guard.level != "landlock":
            pytest.skip(f"no Landlock to be had here: {guard.why}")
        done = run(guard, sys.executable, "train.py")
        told = {each.what: each.held for each in guard.find_leaks()}
        assert guard.can_send
    assert "refused" in done.stderr  # by nobody who listens, as before there were ports
    assert told == {
        "connection to 192.0.2.1:443": True,
        "program bash": False,
        "program git": False,
    }


@pytest.mark.parametrize("network", [False, True])
def test_where_all_is_refused_programs_do_not_send(tmp_path: Path, *, network: bool):
    (tmp_path / "scratch").mkdir()
    with isolate(tmp_path / "scratch", network=network, best="landlock") as guard:
        if (
            guard.level != "landlock"
            or landlock_launcher.landlock_version() < landlock_launcher.PORTS_SINCE
        ):
            pytest.skip("no Landlock with ports to be had here")
        assert not guard.can_send


def test_with_a_network_connections_are_told_and_not_refused(project: Path, tmp_path: Path):
    (tmp_path / "scratch").mkdir()
    (project / "train.py").write_text("import socket; socket.getaddrinfo('192.0.2.1', 443)")
    with isolate(tmp_path / "scratch", network=True, best="python") as guard:
        assert run(guard, sys.executable, "train.py").returncode == 0
        assert [each.what for each in guard.find_leaks()] == ["connection to 192.0.2.1:443"]


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.run([sys.executable, '-I', '-c', ''])",
        "subprocess.run([sys.executable, '-c', ''], env={})",
        "os.execve(sys.executable, [sys.executable, '-c', ''], {'PATH': os.environ['PATH']})",
    ],
)
def test_a_python_that_is_out_of_reach_is_told(guard: Isolation, project: Path, start: str):
    (project / "train.py").write_text(f"import os, subprocess, sys\n{start}\n")
    assert run(guard, sys.executable, "train.py").returncode == 0
    (told,) = guard.find_leaks()
    assert told.what.endswith("without the variables that isolate it")
    assert told.where == f"{project / 'train.py'}:2"


def test_a_program_is_started_in_a_folder_that_the_job_made(guard: Isolation, project: Path):
    code = """
        import os, subprocess, sys
        os.mkdir("made")
        child = "import os; open('x', 'w').write('x'); print(os.getcwd())"
        subprocess.run([sys.executable, "-c", child], cwd="made", check=True)
        os.chdir("made")
        print(os.getcwd(), os.listdir("."), len(os.listdir("..")))
    """
    made = str(project / "made")
    assert python(guard, code).splitlines() == [made, f"{made} ['x'] 5"]
    assert not (project / "made").exists()


def test_a_python_within_reach_is_no_news(guard: Isolation, project: Path):
    starts = "subprocess.run([sys.executable, '-c', '']); os.system('python -c pass')"
    (project / "train.py").write_text(f"import os, subprocess, sys\n{starts}\n")
    assert run(guard, sys.executable, "train.py").returncode == 0
    assert guard.find_leaks() == []


EARLY = """
import glob, io, os, pathlib

if not hasattr(pathlib, "_NormalAccessor"):  # as Python 3.10 has it
    class Accessor:
        open, mkdir, unlink, listdir = io.open, os.mkdir, os.unlink, os.listdir
    pathlib._NormalAccessor = Accessor
if not hasattr(glob, "_StringGlobber"):  # as Python 3.13 has it
    class Globber:
        scandir = staticmethod(os.scandir)
    glob._StringGlobber = Globber
"""
KEPT = """
    import glob, pathlib
    accessor = pathlib._NormalAccessor()
    accessor.mkdir("made")
    with accessor.open("made/new.txt", "w") as file:
        file.write("new")
    accessor.unlink("keep.log")
    pathlib.Path("data.txt").write_text("DATA")
    found = [each.name for each in glob._StringGlobber().scandir("made")]
    print("keep.log" in accessor.listdir("."), found, pathlib.Path("data.txt").read_text())
"""


def test_functions_that_a_class_kept_from_before_us_are_diverted(
    guard: Isolation, project: Path, tmp_path: Path
):
    """What a ``.pth`` file imports is there before anything of ours."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "early.py").write_text(EARLY)
    (packages / "early.pth").write_text("import early\n")
    before = tree(project)
    done = run(guard, str(tmp_path / "venv" / "bin" / "python"), "-c", textwrap.dedent(KEPT))
    assert (done.returncode, done.stdout) == (0, "False ['new.txt'] DATA\n"), done.stderr
    assert tree(project) == before


def test_a_process_that_cannot_be_kept_in_does_not_run(project: Path):
    environment = {**os.environ, "PYTHONPATH": str(BOOT), "WHYIDLE_ISOLATION": "/no/such/file"}
    done = subprocess.run(
        [sys.executable, "-c", "print('ran')"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert "could not be isolated" in done.stderr
