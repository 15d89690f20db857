"""Engines that can be had, and a job that writes all over its owner's files."""

import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from own_sgd import OWN_SGD

from whyidle.fix import executor

TRAIN = f"""
import os, sys, time
{OWN_SGD}
print(os.getcwd(), os.environ.get("SAID"), flush=True)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = SGD(model.parameters(), lr=0.1)
wait_s = 0.002
data = [torch.ones(4)] * 4000
loader = torch.utils.data.DataLoader(data, batch_size=2)
if len(sys.argv) > 1:
    raise ValueError(sys.argv[1])
for step, batch in enumerate(loader):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.save(model.state_dict(), "model.pt")
    with open("log.txt", "a") as log:
        print(step, file=log)
    time.sleep(wait_s * (1 + torch.get_num_threads()))
"""
NEEDS = {"ray": "ray"}


@pytest.fixture(scope="session")
def cluster():
    """A Ray on this machine."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    yield ray
    ray.shutdown()


@pytest.fixture
def start(request, job):
    """Start an executor by its name; what it needs is there, or the test is skipped."""
    started = []

    def starting(name, *words, **terms):
        pytest.importorskip("torch")
        if name in NEEDS and find_spec(NEEDS[name]) is None:
            pytest.skip(f"{NEEDS[name]} is not installed")
        if name == "ray":
            request.getfixturevalue("cluster")
        command = [sys.executable, "train.py", *words]
        one = executor.start_executor(name, executor.TrialTerms(command, **{"here": job, **terms}))
        started.append(one)
        return one

    yield starting
    for one in started:
        one.close()


@pytest.fixture
def job(tmp_path, monkeypatch):
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "model.pt").write_bytes(b"the best model so far")
    (folder / "log.txt").write_text("a log of last week\\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SAID", "by its owner")
    return folder


@pytest.fixture
def place(tmp_path):
    """New folders for arms."""

    def new(name):
        folder = tmp_path / "arms" / name
        folder.mkdir(parents=True)
        return folder

    return new


def state(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def untouched(job):
    """Whatever a test does with executors, the owner's files are as they were."""
    before = state(job)
    yield
    assert state(job) == before
