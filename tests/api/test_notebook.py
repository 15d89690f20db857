"""``%load_ext whyidle`` and ``%%whyidle`` in a real IPython shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("IPython", reason="the extra 'notebook' is not installed")

SHELL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "whyidle")
shown = []
shell.display_pub.publish = lambda data, **_: shown.append(sorted(data))
CELL = '''
import time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(16)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    for batch in DataLoader(Slow(), batch_size=4):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
train()
'''
"""


def run_shell(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    script = folder / "shell.py"
    script.write_text(SHELL + text)
    env = {**os.environ, "IPYTHONDIR": str(folder), "MPLBACKEND": "agg"}
    env["JPY_SESSION_NAME"] = "work/photos.ipynb"
    return subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=env,
        timeout=120,
    )


def test_a_cell_is_watched_displayed_and_named(tmp_path: Path):
    done = run_shell(
        tmp_path,
        """
shell.run_cell("%%whyidle off d" + CELL)
d = shell.user_ns["d"]
print(json.dumps([shown, d.verdict.state, d.findings[0].where[0].function, d.run.command,
                  d.run.job, "model" in shell.user_ns]))
""",
    )
    assert done.returncode == 0, done.stderr
    shown, state, function, command, job, kept = json.loads(done.stdout.splitlines()[-1])
    assert shown == [["text/html", "text/markdown", "text/plain"]]
    assert (state, function, command, kept) == ("starved", "__getitem__", [], True)
    assert job == "photos.ipynb"


def test_a_cell_that_fails_fails_as_before_and_the_next_is_watched(tmp_path: Path):
    done = run_shell(
        tmp_path,
        """
shell.run_cell("%%whyidle off\\n1/0")
shell.run_cell("%%whyidle off d" + CELL)
print(json.dumps(shell.user_ns["d"].verdict.state))
""",
    )
    assert "ZeroDivisionError" in done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == "starved"


def test_words_that_it_does_not_know_are_an_error(tmp_path: Path):
    done = run_shell(tmp_path, 'shell.run_cell("%%whyidle fast and loose\\npass")')
    assert "does not understand" in done.stdout + done.stderr
