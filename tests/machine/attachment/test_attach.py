"""Looks at real processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from own_sgd import OWN_SGD

from whyidle.errors import InputError, MissingExtraError
from whyidle.machine.attachment.attach import attach_to
from whyidle.machine.attachment.stack_look import find_pyspy
from whyidle.machine.attachment.target_process import find_target

pytestmark = pytest.mark.real_processes("a real process is looked at for seconds")

JOB = f"""
import sys, time
{OWN_SGD}
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 1 << 20
    def __getitem__(self, index):
        total = 0
        for k in range(30000):
            total += k * k
        return torch.full((64,), float(index % 7)), index % 10

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = SGD(model.parameters(), lr=1e-3)
for x, y in DataLoader(Numbers(), batch_size=8, num_workers=int(sys.argv[1])):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", flush=True)
"""


@pytest.fixture(autouse=True)
def pyspy() -> None:
    try:
        find_pyspy()
    except MissingExtraError as error:
        pytest.skip(str(error))


@contextmanager
def started(path: Path, text: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process, after its first output."""
    path.write_text(text)
    told = path.with_suffix(".log")
    with (
        told.open("wb") as log,
        subprocess.Popen([sys.executable, str(path), *words], stdout=log) as running,
    ):
        try:
            while not told.stat().st_size:
                assert running.poll() is None
                time.sleep(0.1)
            yield running
        finally:
            running.kill()


PYTHON = f"""
{OWN_SGD}
torch.set_num_threads(1)
model = torch.nn.Linear(512, 1024)
optimizer = SGD(model.parameters(), lr=1e-3)
def score(n):
    total = 0
    for k in range(n):
        total += k * k % 7
    return total
while True:
    penalty = score(150_000)
    loss = model(torch.randn(64, 512)).sum() + penalty * 0
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", flush=True)
"""


def test_python_between_operators_is_told_from_computing(tmp_path: Path):
    pytest.importorskip("torch")
    with started(tmp_path / "job.py", PYTHON) as job:
        diagnosis = attach_to(find_target(job.pid), 7)
        assert job.poll() is None
    assert diagnosis.attribution.host > 0.4
    assert "score" in diagnosis.verdict.headline


@pytest.mark.parametrize(
    ("workers", "cause"), [("0", "dataloader-no-workers"), ("1", "dataloader-too-few-workers")]
)
def test_a_sick_job_is_diagnosed(tmp_path: Path, workers: str, cause: str):
    pytest.importorskip("torch")
    with started(tmp_path / "job.py", JOB, workers) as job:
        diagnosis = attach_to(find_target(job.pid), 7)
        assert job.poll() is None
    assert diagnosis.verdict.state == "starved"
    assert diagnosis.findings[0].cause == cause
    assert {place.function for place in diagnosis.findings[0].where} & {"__getitem__", "<module>"}
    assert diagnosis.steps.mean_s is None
    assert "per step" not in diagnosis.findings[0].headline
    assert "observed from outside" in diagnosis.coverage.notes[0]


LOAD = f"""
import time
{OWN_SGD}
def load():
    time.sleep(0.2)
    return torch.randn(64, 1024)
torch.set_num_threads(1)
model = torch.nn.Linear(1024, 2048)
optimizer = SGD(model.parameters(), lr=1e-3)
while True:
    x = load()
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", flush=True)
"""


def test_a_call_that_sleeps_and_returns_what_the_step_uses_is_input(tmp_path: Path):
    pytest.importorskip("torch")
    with started(tmp_path / "job.py", LOAD) as job:
        diagnosis = attach_to(find_target(job.pid), 7)
    assert diagnosis.attribution.input > 0.6
    assert diagnosis.findings[0].bucket == "input"
    assert diagnosis.findings[0].where[0].function == "load"


def test_a_process_that_does_not_train_is_named_as_such(tmp_path: Path):
    text = "print('up', flush=True)\nwhile True:\n    sum(range(10000))\n"
    with started(tmp_path / "other.py", text) as other:
        diagnosis = attach_to(find_target(other.pid), 1)
    assert diagnosis.verdict.state == "inconclusive"
    assert "neither PyTorch nor TensorFlow nor JAX" in diagnosis.verdict.headline
    assert not diagnosis.findings


def test_the_shell_that_started_the_look_runs_no_python_of_its_own(tmp_path: Path):
    """The look itself is Python, and a descendant of that shell."""
    command = f"'{sys.executable}' -m whyidle attach $$ --seconds 3 --no-store; exit $?"
    words = ["sh", "-c", command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "no readable Python" in done.stderr


def test_a_process_that_does_not_exist_is_an_error():
    with pytest.raises(InputError, match="There is no process"):
        find_target(2**22 + 5)


def test_a_process_that_ends_during_the_look_is_told_so_far(tmp_path: Path):
    text = (
        "import time\nprint('up', flush=True)\nend = time.time() + 2\nwhile time.time() < end: 1\n"
    )
    with started(tmp_path / "short.py", text) as short:
        diagnosis = attach_to(find_target(short.pid), 30)
    assert any("ended during the observation" in note for note in diagnosis.coverage.notes)
    assert diagnosis.run.duration_s is not None
    assert diagnosis.run.duration_s < 4
