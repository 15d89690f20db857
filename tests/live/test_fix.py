"""``whyidle fix`` on jobs that sleep where real ones read: what it keeps, and leaves alone."""

import hashlib
import json
import subprocess
import sys

import pytest
from own_sgd import OWN_SGD

from whyidle.store.plan_file import read_plan

SLOW = f"""
import argparse
import sys
import time
{OWN_SGD}
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.02)  # a far disk
        return torch.full((8,), float(index % 7))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Slow(), batch_size=8, shuffle=True)
    model = torch.nn.Linear(8, 1)
    optimizer = SGD(model.parameters(), lr=0.01)
    with open("log.txt", "a") as log:
        for step, batch in enumerate(loader):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item(), file=log)
            if step % 20 == 0:
                torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""


def state(folder):
    """Every file of the user's, by what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "store" not in path.parts and ".git" not in path.parts
    }


@pytest.fixture
def job(watching):
    """A job that waits for its data, with a checkpoint and a log that are somebody's."""
    (watching.folder / "train.py").write_text(SLOW)
    (watching.folder / "model.pt").write_bytes(b"the best model so far")
    (watching.folder / "log.txt").write_text("a log of last week\n")
    return watching


def fixed(job, *options, budget="45s", command=(sys.executable, "train.py")):
    words = [*job.whyidle("fix"), "--budget", budget, *options, *command]
    return subprocess.run(
        words, cwd=job.folder, env=job.env, capture_output=True, text=True, timeout=240, check=False
    )


MADE = {"told.json", "told.html", "plan.toml", "fix.patch"}


def test_whatever_is_found_nothing_of_its_owner_is_touched(job):
    before = state(job.folder)
    told = fixed(job, "--json", "told.json", "--html", "told.html", budget="20s")
    assert told.returncode == 0, told.stderr
    now = state(job.folder)
    assert {name: digest for name, digest in now.items() if name not in MADE} == before
    document = json.loads((job.folder / "told.json").read_text())
    kept = [trial["fix"] for trial in document["trials"] if trial["kept"]]
    assert (job.folder / "plan.toml").exists() == bool(kept)
    assert (document["detail"]["fixed"] is not None) == bool(kept)


@pytest.mark.live
def test_a_starved_job_is_healed(job):
    told = fixed(job, "--json", "told.json")
    document = json.loads((job.folder / "told.json").read_text())
    kept = [trial["fix"] for trial in document["trials"] if trial["kept"]]
    assert "loader-workers" in kept, told.stderr
    outcome = document["detail"]["fixed"]
    assert outcome["speedup"] > 1.5
    assert outcome["attribution"]["input"] < document["attribution"]["input"]
    plan = read_plan(job.folder / "plan.toml")
    subprocess.run(["git", "init", "-q"], cwd=job.folder, check=True)
    subprocess.run(["git", "apply", "fix.patch"], cwd=job.folder, check=True)
    text = (job.folder / "train.py").read_text()
    assert f"num_workers={plan.settings['loader.workers']}" in text
    compile(text, "train.py", "exec")


@pytest.mark.live
def test_a_job_that_needs_nothing_is_left_alone(job):
    (job.folder / "train.py").write_text(SLOW.replace("time.sleep(0.02)", "pass"))
    told = fixed(job, "--json", "told.json", budget="30s")
    assert told.returncode == 0, told.stderr
    document = json.loads((job.folder / "told.json").read_text())
    assert not any(trial["kept"] for trial in document["trials"])
    assert not (job.folder / "plan.toml").exists()


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ((sys.executable, "-c", "raise ValueError('no data')"), "no data"),
        ((sys.executable, "-c", "print(1)"), "took no optimizer step"),
        (("no-such-command",), "no-such-command"),
    ],
)
def test_a_command_that_does_not_train_is_told_in_three_lines(job, command, word):
    told = fixed(job, command=command)
    assert told.returncode == 1
    assert word in told.stderr
    assert "Traceback" not in told.stderr


def test_a_plan_that_is_somebodys_is_not_overwritten(job):
    (job.folder / "plan.toml").write_text("mine")
    told = fixed(job, "--write-plan", "plan.toml")
    assert told.returncode == 1
    assert "already exists" in told.stderr
    assert (job.folder / "plan.toml").read_text() == "mine"
