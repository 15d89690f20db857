"""Sockets of services that no overlay hides: beside a mount further down, or mounted alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from isolated import SHORT_S

from whyidle.fix.isolation import namespaces
from whyidle.fix.isolation.mounts import Mount


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With sockets at which somebody listens: their names are short, as the system wants them."""
    monkeypatch.chdir(tmp_path)
    opened = []
    for name in ("run/docker.sock", "run/deep/er.sock", "run/lock/in.sock", "run/mps/control"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        daemon = socket.socket(socket.AF_UNIX)
        daemon.bind(name)
        daemon.listen()
        opened.append(daemon)
    Path("run/file").write_text("x")
    Path("run/link").symlink_to("docker.sock")
    yield tmp_path
    for daemon in opened:
        daemon.close()


def found(place: Path, mounts: list[Mount], overlaid: list[str]) -> list[str]:
    every = [Mount(f"{place}/{each.path}", each.kind, each.writable) for each in mounts]
    told = namespaces.uncovered_sockets(every, [f"{place}/{each}" for each in overlaid])
    return sorted(each[len(str(place)) + 1 :] for each in told)


def test_what_lies_beside_the_overlays_is_found(place: Path):
    mounts = [Mount("run", "tmpfs", True), Mount("run/lock", "tmpfs", True)]
    assert found(place, mounts, ["run/lock", "run/deep", "run/mps"]) == ["run/docker.sock"]


def test_what_is_read_only_has_no_overlay_at_all(place: Path):
    mounts = [Mount("run", "tmpfs", False), Mount("run/lock", "sysfs", True)]
    told = ["run/deep/er.sock", "run/docker.sock", "run/mps/control"]
    assert found(place, mounts, []) == told


def test_what_only_answers_questions_stays(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", f"{place}/run/mps")
    mounts = [Mount("run", "tmpfs", False), Mount("run/lock", "tmpfs", True)]
    assert found(place, mounts, ["run/lock"]) == ["run/deep/er.sock", "run/docker.sock"]


def test_a_mount_may_be_a_socket_and_is_not_looked_through_without_end(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    assert found(place, [Mount("run/docker.sock", "tmpfs", False)], []) == ["run/docker.sock"]
    monkeypatch.setattr(namespaces, "MOST_LOOKED_AT", 5)
    for number in range(9):
        Path(f"run/deep/{number}").mkdir()
    assert "run/deep/er.sock" not in found(place, [Mount("run", "tmpfs", False)], [])


SESSION = """
import os, socket, subprocess, sys
from pathlib import Path
from whyidle.fix.isolation import isolate

def mount(*words):
    if subprocess.run(["mount", *words]).returncode:
        sys.exit("no mounts")

def serve(name):
    daemon = socket.socket(socket.AF_UNIX)
    daemon.bind(name)
    daemon.listen()
    return daemon

mount("-t", "tmpfs", "none", "run")
os.mkdir("run/lock")
mount("-t", "tmpfs", "none", "run/lock")
daemons = serve("run/docker.sock"), serve("bound.sock")
Path("run/one").touch()
mount("--bind", "bound.sock", "run/one")
mount("-o", "remount,bind,ro", "run/one")
code = '''
import os, socket
for name in ("../run/docker.sock", "../run/one"):
    try:
        socket.socket(socket.AF_UNIX).connect(name)
        print("reached")
    except OSError as error:
        print(type(error).__name__)
'''
os.chdir("project")
subprocess.run([sys.executable, "-c", code])
with isolate(Path("../scratch")) as guard:
    print(guard.level, flush=True)
    subprocess.run(guard.command([sys.executable, "-c", code]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_service_beside_a_mount_is_out_of_reach(tmp_path: Path):
    for each in ("run", "project", "scratch"):
        (tmp_path / each).mkdir()
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", SESSION],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=SHORT_S,
    )
    outside, level, behind = done.stdout.partition("namespaces")
    if not level:
        pytest.skip(f"no such mounts or namespaces here: {done.stdout}{done.stderr}")
    assert outside.split() == ["reached"] * 2
    assert behind.split() == ["ConnectionRefusedError"] * 2
