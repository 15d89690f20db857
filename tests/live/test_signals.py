"""Signals reach the command, once; its status is ours; nothing is left behind."""

import os
import pty
import signal
import sys
import time

import pytest

COUNT = """
import signal, sys, time
seen = []
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, frame: seen.append(number))
print("ready", flush=True)
until = time.monotonic() + 60
while not seen and time.monotonic() < until:
    time.sleep(0.01)
time.sleep(0.4)
print(sorted(seen))
sys.exit(40 + len(seen))
"""
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")


@pytest.fixture
def counting(tmp_path):
    path = tmp_path / "count.py"
    path.write_text(COUNT)
    return [path, *NAMES]


def ready(child):
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)  # the listener beside it


@pytest.mark.usefixtures("default_hangup")
@pytest.mark.parametrize(
    ("name", "to_group"), [*((name, False) for name in NAMES), ("SIGINT", True), ("SIGHUP", True)]
)
def test_a_signal_reaches_the_command_once(watching, counting, name, to_group):
    number = getattr(signal, name)
    with watching.start(watching.words(*counting), start_new_session=True) as child:
        ready(child)
        (os.killpg if to_group else os.kill)(child.pid, number)
        out, _ = child.communicate(timeout=60)
    assert out == f"[{number:d}]\n"
    assert child.returncode == 41


def test_a_signal_sent_to_the_group_and_to_us_reaches_the_command_once(watching, counting):
    with watching.start(watching.words(*counting), start_new_session=True) as child:
        ready(child)
        os.killpg(child.pid, signal.SIGTERM)
        time.sleep(0.05)  # as ``timeout`` does, but far enough apart that they do not melt into one
        os.kill(child.pid, signal.SIGTERM)
        out, _ = child.communicate(timeout=60)
    assert out == f"[{signal.SIGTERM:d}]\n"
    assert child.returncode == 41


def test_control_c_in_a_terminal(watching, counting):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(watching.folder)
        words = [str(word) for word in watching.words(*counting)]
        os.execv(words[0], words)
    text = b""
    try:
        while b"ready" not in text:
            text += os.read(terminal, 1000)
        time.sleep(0.3)
        os.write(terminal, b"\x03")
        while b"[" not in text:
            text += os.read(terminal, 1000)
    finally:
        status = os.waitpid(pid, 0)[1]
        os.close(terminal)
    assert b"[2]" in text
    assert os.waitstatus_to_exitcode(status) == 41


def test_the_status_of_a_command_that_a_signal_ended(watching):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    assert watching.run(sys.executable, "-c", code).returncode == 128 + signal.SIGSEGV


def test_what_nohup_ignores_stays_ignored(watching):
    code = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    words = watching.words(sys.executable, "-c", code)
    script = 'trap "" HUP; exec "$@"'
    done = watching.alone("sh", "-c", script, "sh", *words)
    assert done.stdout == "True\n"
