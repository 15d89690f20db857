"""Connections to services of this machine, isolated by namespaces."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from isolated import run

from whyidle.fix.isolation import Isolation, isolate


@pytest.fixture
def namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Isolation]:
    for each in ("project", "scratch"):
        (tmp_path / each).mkdir()
    monkeypatch.chdir(tmp_path / "project")
    with isolate(tmp_path / "scratch") as guard:
        if guard.level != "namespaces":
            pytest.skip(f"no namespaces to be had here: {guard.why}")
        yield guard


@pytest.fixture
def service() -> Iterator[int]:
    """The port of somebody who listens on this machine, outside of the trial."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


UPLOADS = """
import sys, urllib.request
for _ in range(3):
    try:
        urllib.request.urlopen(f"http://localhost:{sys.argv[1]}/log", data=b"1", timeout=5)
    except OSError:
        print("swallowed")
"""


def leaks(guard: Isolation, text: str, port: int) -> list[tuple[str, str]]:
    """What is told of a script that is given a port, and what it printed."""
    Path("train.py").write_text(text)
    done = run(guard, sys.executable, "train.py", str(port))
    assert done.returncode == 0, done.stderr
    return [each[:2] for each in guard.find_leaks()]


def test_an_upload_to_a_service_here_that_is_refused_is_told(namespaces: Isolation, service: int):
    told = leaks(namespaces, UPLOADS, service)
    line = f"{Path.cwd() / 'train.py'}:5"
    assert (f"connection to 127.0.0.1:{service}", line) in told
    assert {where for _, where in told} == {line}
    behind = namespaces.make_report()
    assert (behind.level, behind.network) == ("namespaces", False)
    assert [each[:2] for each in behind.leaks] == told


def test_where_nobody_listens_nothing_was_held_back(namespaces: Isolation):
    """Without a trial it would have been refused as well: so launchers look for a free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert leaks(namespaces, UPLOADS, port) == []


MEETS = """
import socket, subprocess, sys, time
port = int(sys.argv[1])
retry = '''
import socket, sys, time
print("asks", flush=True)
for _ in range(600):
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)
        break
    except OSError:
        print("refused", flush=True)
        time.sleep(0.05)
else:
    sys.exit(1)
'''
other = subprocess.Popen([sys.executable, "-c", retry, str(port)], stdout=subprocess.PIPE)
assert [other.stdout.readline() for _ in range(2)] == [b"asks\\n", b"refused\\n"]
with socket.create_server(("127.0.0.1", port)):
    other.communicate()
sys.exit(other.returncode)
"""


def test_ranks_that_meet_in_the_end_leave_nothing_to_tell(namespaces: Isolation, service: int):
    """At a port that by chance is somebody else's outside, after they have been refused once."""
    assert leaks(namespaces, MEETS, service) == []
    assert list(namespaces._notes.glob("*.refused"))
