"""A process that grows with every step, and one that does not."""

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

JOB = """
import sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

def train(seconds, keep):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        x = torch.randn(64, 256)
        for _ in range(8):
            loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if keep:
            loss = model(x).square().mean()
            losses.append(loss)  # the line
        else:
            losses.append(loss.item())

train(float(sys.argv[1]), sys.argv[2] == "keep")
"""


@pytest.fixture
def job(watching):
    path = watching.folder / "train.py"
    path.write_text(JOB)
    return path


def test_a_growing_process_is_the_first_finding_with_the_line_that_keeps(watching, job):
    assert watching.run(job, 9, "keep").returncode == 0
    diagnosis = watching.diagnosis()
    assert [one for one in diagnosis["findings"] if one["severity"] != "info"] == []
    (first,) = (one for one in diagnosis["findings"] if one["cause"] == "memory-leak-growth")
    assert "the process grows by" in diagnosis["verdict"]["headline"]
    line = next(i for i, one in enumerate(JOB.splitlines(), 1) if "# the line" in one)
    assert (first["where"][0]["file"], first["where"][0]["line"]) == (str(job), line)
    assert "MB per step" in first["headline"]


def test_a_process_that_keeps_numbers_is_not_blamed(watching, job):
    assert watching.run(job, 9, "drop").returncode == 0
    causes = [finding["cause"] for finding in watching.diagnosis()["findings"]]
    assert "memory-leak-growth" not in causes
