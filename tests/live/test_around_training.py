"""What lies before the first step and after the last one, of real jobs."""

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

JOB = """
import sys, time
import torch
torch.set_num_threads(1)
before, training, after = map(float, sys.argv[1:4])

def scan(seconds):
    end, found = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        found += sum(i * i for i in range(1000))  # the line
    return found

scan(before)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(256, 256)
until = time.monotonic() + training
while time.monotonic() < until:
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
time.sleep(after)  # the line after
"""


@pytest.fixture
def job(watching):
    path = watching.folder / "train.py"
    path.write_text(JOB)
    return path


def line_of(job, text):
    return next(i for i, line in enumerate(job.read_text().splitlines(), 1) if text in line)


def test_a_long_start_up_is_the_first_finding_with_its_line(watching, job):
    assert watching.run(job, 8, 2, 0).returncode == 0
    first = watching.diagnosis()["findings"][0]
    assert first["cause"] == "slow-startup"
    assert first["severity"] != "info"
    place = first["where"][0]
    assert (place["file"], place["line"]) == (str(job), line_of(job, "# the line"))


def test_a_wait_after_the_last_step_is_the_first_finding_with_its_line(watching, job):
    assert watching.run(job, 0, 2, 8).returncode == 0
    diagnosis = watching.diagnosis()
    first = diagnosis["findings"][0]
    assert first["cause"] == "interactive-or-unreleased"
    place = first["where"][0]
    assert (place["file"], place["line"]) == (str(job), line_of(job, "# the line after"))
    assert diagnosis["steps"]["p50_s"] < 1.0


def test_a_job_that_trains_all_the_time_is_not_blamed(watching, job):
    assert watching.run(job, 0, 6, 0).returncode == 0
    assert [f for f in watching.diagnosis()["findings"] if f["severity"] != "info"] == []


PLANT = """
import gc
loop, = (thing for thing in gc.get_objects() if type(thing).__name__ == "Events")
loop.imported = property  # cannot be written as JSON: the telling fails
import time
time.sleep(3)
print("done")
"""


def test_a_fault_in_telling_of_a_process_that_does_not_train_stays_ours(watching):
    path = watching.folder / "plain.py"
    path.write_text("import torch\n" + PLANT)
    done = watching.run(path)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "Traceback" not in done.stderr
    (faults,) = watching.recording().glob("*.faults")
    assert "JSON" in faults.read_text()
    assert not list(watching.recording().glob("*.seen.json"))
