"""``whyidle.watch``: real training processes that watch themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from own_sgd import OWN_SGD

pytest.importorskip("torch")

JOB = f"""
import json, os, sys, threading, time
{OWN_SGD}
import whyidle
from torch.utils.data import DataLoader, Dataset, dataloader

class Slow(Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(16)

torch.set_num_threads(1)
model = torch.nn.Linear(16, 1)
optimizer = SGD(model.parameters(), lr=0.1)

def train():
    for batch in DataLoader(Slow(), batch_size=4):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

def state():
    hooks = [dataloader._BaseDataLoaderIter.__next__, torch.autograd.backward, sys.excepthook]
    own = [os.environ.get(name) for name in ("WHYIDLE_RUN", "PYTHONPATH")]
    return [*map(id, hooks), own, threading.active_count()]
"""


def run_job(folder: Path, text: str, *words: str, **variables: str) -> dict:
    """What the job prints as its last line, JSON."""
    script = folder / "job.py"
    script.write_text(JOB + text)
    outside = {name: value for name, value in os.environ.items() if not name.startswith("WHYIDLE_")}
    done = subprocess.run(
        [*(words or (sys.executable,)), str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**outside, **variables},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


BLOCKS = """
def told_of(w):
    d = w.diagnosis
    return {"run": w.run_id, "verdict": d.verdict.state, "status": d.run.exit_status,
            "steps": d.steps.count + d.steps.warmup}

before = state()
with whyidle.watch(profile="off") as first:
    inside = first.diagnosis
    train()
d = first.diagnosis
told = {"first": told_of(first), "inside": inside, "same": state() == before,
        "cause": d.findings[0].cause, "where": d.findings[0].where[0].function,
        "command": d.run.command, "stored": whyidle.load(first.run_id) == d,
        "notes": d.coverage.notes}
train()
try:
    with whyidle.watch(profile="off") as raising:
        train()
        1 / 0
except ZeroDivisionError:
    told["raising"] = told_of(raising)
with whyidle.watch(profile="off") as empty:
    pass
told["empty"] = empty.diagnosis.verdict.state
with whyidle.watch(profile="off") as outer:
    train()
    try:
        with whyidle.watch():
            pass
    except Exception as error:
        told["nested"] = str(error)
told["outer"] = told_of(outer)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def blocks(tmp_path_factory) -> dict:
    """What became of the blocks of one process that watches itself several times."""
    folder = tmp_path_factory.mktemp("blocks")
    return {"folder": folder, **run_job(folder, BLOCKS)}


def test_a_block_is_watched_stored_and_diagnosed_and_leaves_no_trace(blocks):
    first = blocks["first"]
    assert blocks["inside"] is None
    assert blocks["same"], "hooks, threads or variables are left"
    assert first["verdict"] == "starved"
    assert blocks["cause"] == "dataloader-no-workers"
    assert blocks["where"] == "__getitem__"
    assert first["steps"] == 40
    assert blocks["command"] == [sys.executable, str(blocks["folder"] / "job.py")]
    assert first["status"] == 0
    assert blocks["stored"]
    assert not [note for note in blocks["notes"] if "failed" in note]


def test_blocks_are_runs_of_their_own_and_see_nothing_of_what_lies_between(blocks):
    told = [blocks[name] for name in ("first", "raising", "outer")]
    assert [each["steps"] for each in told] == [40, 40, 40]
    assert len({each["run"] for each in told}) == 3


def test_a_block_that_raises_passes_it_on_and_is_diagnosed(blocks):
    assert (blocks["raising"]["status"], blocks["raising"]["verdict"]) == (1, "starved")


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


def test_a_block_without_steps_is_inconclusive(blocks):
    assert blocks["empty"] == "inconclusive"


def test_one_watch_at_a_time(blocks):
    assert "already watched" in blocks["nested"]
    assert blocks["outer"]["verdict"] == "starved"


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
