"""Processes that may or may not be looked at."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whyidle.errors import InputError
from whyidle.machine.attachment import target_process
from whyidle.machine.attachment.target_process import find_target, refuse_access


@pytest.mark.parametrize(
    ("scope", "hint"),
    [
        ("0", "SYS_PTRACE"),
        (None, "SYS_PTRACE"),
        ("1", "sysctl kernel.yama.ptrace_scope=0"),
        ("2", "sudo whyidle attach 4711"),
        ("3", "whyidle run"),
    ],
)
def test_a_missing_right_is_named_with_what_grants_it(
    scope: str | None, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if scope is not None:
        (tmp_path / "ptrace_scope").write_text(f"{scope}\n")
    monkeypatch.setattr(target_process, "_YAMA", tmp_path / "ptrace_scope")
    assert hint in refuse_access(4711).hint


def test_another_users_process_is_named_with_its_owner():
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert refuse_access(4711, f"not-{me}").hint == f"sudo -u not-{me} whyidle attach 4711"
    assert "sudo -u" not in refuse_access(4711, me).hint


@pytest.mark.real_processes("a process is started and looked at")
def test_a_process_is_described():
    environ = {**os.environ, "WHYIDLE_RUN": "/somewhere/recording"}
    words = [
        sys.executable,
        "-c",
        "import time; print(1, flush=True); time.sleep(30)",
        "--token=s3cret",
    ]
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        found = find_target(running.pid)
        running.kill()
    assert found.command == [*words[:-1], "--token=***"]
    assert found.folder == str(Path.cwd())
    assert found.recording == Path("/somewhere/recording")
    assert not found.libraries
    assert not found.holds_gpu
    assert found.cores == len(os.sched_getaffinity(0))


@pytest.mark.real_processes("a process ends, and its parent has not asked for its status")
def test_a_process_that_left_only_its_status_has_ended():
    with subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.read()
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(InputError) as error:
            find_target(running.pid)
    assert "ended" in error.value.why


def test_children_with_a_command_of_their_own_are_told_from_forked_ones():
    text = (
        "import os, time\nos.fork() or time.sleep(30)\nos.wait() if os.fork() else time.sleep(30)\n"
    )
    words = ["sh", "-c", f"\"{sys.executable}\" -c '{text}' & echo up; wait"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        for _ in range(100):
            target = find_target(shell.pid)
            if len(target.children) == 3:
                break
            time.sleep(0.05)
        (python,) = (one for one, parent in target.parents.items() if parent == shell.pid)
        assert not target.has_only_parts
        assert find_target(python).has_only_parts
        os.killpg(shell.pid, signal.SIGKILL)
