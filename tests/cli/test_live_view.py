"""The live view in a real terminal, above which a job draws its progress bar."""

import os
import pty
import shutil
import subprocess
import sys
import textwrap
import time

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

JOB = """
    import sys, time
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(30):
        print("line", number)
    begin, step = time.time(), 0
    while step < 20 or time.time() - begin < float(sys.argv[1]):
        model(torch.randn(8, 16)).sum().backward()
        optimizer.step()
        time.sleep(0.01)
        step += 1
        sys.stderr.write(f"\\r{step:5d} |" + "#" * (step % 20))
        sys.stderr.flush()
    print("\\nlast line")
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    return [sys.executable, "-m", "whyidle", "run", "--store", str(tmp_path / "s")], tmp_path


def until(found, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (seen := found()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return seen


@pytest.mark.skipif(not shutil.which("tmux"), reason="a terminal to look at: needs tmux")
def test_the_job_s_lines_and_its_bar_stay_above(job):
    command, folder = job
    tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "socket")]
    path = os.pathsep.join(sys.path)
    words = f"PYTHONPATH='{path}' {' '.join(command)} job.py 4; exec cat"
    new = ["new-session", "-d", "-x", "70", "-y", "24", "-c", str(folder), words]
    subprocess.run([*tmux, *new], check=True, timeout=30)

    def screen():
        shown = subprocess.run(
            [*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True, timeout=30
        )
        return shown.stdout.split("\n")[:24]

    try:
        rows = until(lambda: (rows := screen()) and rows[20].startswith("step ") and rows)
        assert " |" in rows[16]
        assert rows[15] == "line 29"
        assert rows[14] == "line 28"
        until(lambda: any("whyidle causes" in row or "next" in row for row in screen()))
        assert not any(row.startswith("step ") for row in screen())
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, timeout=30)


def test_the_terminal_is_given_back_when_the_job_is_killed(job):
    command, folder = job
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm", COLUMNS="80", LINES="24")
        os.execv(
            sys.executable,
            [*command, "sh", "-c", "stty rows 24 cols 80; exec $0 job.py 60", sys.executable],
        )
    seen, ended = b"", False
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            seen += os.read(terminal, 65536)
        except OSError:  # the terminal's other end is closed
            break
        if b"\x1b[1;17r" in seen and not ended:
            ended = os.write(terminal, b"\x03") > 0
    os.waitpid(child, 0)
    os.close(terminal)
    assert ended
    assert seen.rfind(b"\x1b[r") > seen.rfind(b"\x1b[1;17r") > 0
