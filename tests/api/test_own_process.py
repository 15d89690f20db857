"""``whyidle.watch``: real training processes that watch themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

JOB = """
import json, os, sys, threading, time
import torch, whyidle
from torch.utils.data import DataLoader, Dataset, dataloader

class Slow(Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(16)

torch.set_num_threads(1)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train():
    for batch in DataLoader(Slow(), batch_size=4):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

def state():
    hooks = [dataloader._BaseDataLoaderIter.__next__, torch.autograd.backward, sys.excepthook]
    own = {name: os.environ.get(name) for name in ("WHYIDLE_RUN", "PYTHONPATH")}
    return [*map(id, hooks), own, threading.active_count()]
"""


def run_job(folder: Path, text: str, *words: str, **variables: str) -> dict:
    """What the job prints as its last line, JSON."""
    script = folder / "job.py"
    script.write_text(JOB + text)
    done = subprocess.run(
        [*(words or (sys.executable,)), str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **variables},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_block_is_watched_stored_and_diagnosed_and_leaves_no_trace(tmp_path: Path):
    found = run_job(
        tmp_path,
        """
before = state()
with whyidle.watch(profile="off") as w:
    inside = w.diagnosis
    train()
d = w.diagnosis
print(json.dumps({
    "inside": inside, "same": state() == before, "verdict": d.verdict.state,
    "cause": d.findings[0].cause, "where": d.findings[0].where[0].function,
    "steps": d.steps.count + d.steps.warmup, "command": d.run.command, "status": d.run.exit_status,
    "stored": whyidle.load(w.run_id) == d, "notes": d.coverage.notes,
}))
""",
    )
    assert found["inside"] is None
    assert found["same"], "hooks, threads or variables are left"
    assert found["verdict"] == "starved"
    assert found["cause"] == "dataloader-no-workers"
    assert found["where"] == "__getitem__"
    assert found["steps"] == 40
    assert found["command"] == [sys.executable, str(tmp_path / "job.py")]
    assert found["status"] == 0
    assert found["stored"]
    assert not [note for note in found["notes"] if "failed" in note]


def test_two_blocks_are_two_runs_and_neither_sees_what_lies_between(tmp_path: Path):
    found = run_job(
        tmp_path,
        """
runs = []
for _ in range(2):
    with whyidle.watch(profile="off") as w:
        train()
    runs.append(w)
    train()
counts = [w.diagnosis.steps.count + w.diagnosis.steps.warmup for w in runs]
print(json.dumps({"counts": counts, "ids": [w.run_id for w in runs]}))
""",
    )
    assert found["counts"] == [40, 40]
    assert len(set(found["ids"])) == 2


def test_a_block_that_raises_passes_it_on_and_is_diagnosed(tmp_path: Path):
    found = run_job(
        tmp_path,
        """
try:
    with whyidle.watch(profile="off") as w:
        train()
        1 / 0
except ZeroDivisionError:
    print(json.dumps({"status": w.diagnosis.run.exit_status, "state": w.diagnosis.verdict.state}))
""",
    )
    assert found == {"status": 1, "state": "starved"}


def test_a_framework_that_is_imported_in_the_block_is_watched(tmp_path: Path):
    script = tmp_path / "late.py"
    script.write_text("import whyidle\nwith whyidle.watch(profile='off') as w:\n    import job\n")
    (tmp_path / "job.py").write_text(JOB + "train()\n")
    with script.open("a") as more:
        more.write("print(w.diagnosis.steps.count + w.diagnosis.steps.warmup)\n")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.split() == ["40"], done.stderr


def test_a_block_without_steps_is_inconclusive(tmp_path: Path):
    found = run_job(
        tmp_path,
        """
with whyidle.watch(profile="off") as w:
    pass
try:
    print(json.dumps({"state": w.diagnosis.verdict.state}))
except Exception as error:
    print(json.dumps({"error": str(error)}))
""",
    )
    assert found["state"] == "inconclusive"


def test_one_watch_at_a_time(tmp_path: Path):
    found = run_job(
        tmp_path,
        """
with whyidle.watch(profile="off") as w:
    train()
    try:
        with whyidle.watch():
            pass
    except Exception as error:
        said = str(error)
print(json.dumps({"said": said, "state": w.diagnosis.verdict.state}))
""",
    )
    assert "already watched" in found["said"]
    assert found["state"] == "starved"


TOLD = """
with whyidle.watch(profile="off") as w:
    train()
print(json.dumps({"diagnosis": w.diagnosis, "run": w.run_id}))
"""


def test_under_whyidle_run_the_outer_run_watches(tmp_path: Path):
    watched = (sys.executable, "-m", "whyidle", "run", "--profile", "off", "--", sys.executable)
    assert run_job(tmp_path, TOLD, *watched) == {"diagnosis": None, "run": None}
    stored = [path.name for path in (tmp_path / ".whyidle" / "runs").iterdir()]
    assert len(stored) == 1


def test_switched_off_by_the_environment(tmp_path: Path):
    assert run_job(tmp_path, TOLD, WHYIDLE_DISABLE="1") == {"diagnosis": None, "run": None}
    assert not (tmp_path / ".whyidle").exists()
