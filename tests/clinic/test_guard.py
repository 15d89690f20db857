"""Arms that make the same steps are held against what the cure may change."""

import math

import pytest
from own_sgd import OWN_SGD
from sheets import sheet

from clinic import app, guard
from clinic.card import cases
from clinic.verbs import FAILED

pytestmark = pytest.mark.real_processes("jobs are watched for seconds")

JOB = f"""
import argparse
{OWN_SGD}p = argparse.ArgumentParser()
for name in ("rate", "steps", "seed"):
    p.add_argument("--" + name, type=float)
p.add_argument("--times")
a = p.parse_args()
torch.manual_seed(int(a.seed))
layer = torch.nn.Linear(3, 1)
optimizer = SGD(layer.parameters(), lr=a.rate)
for _ in range(int(a.steps)):
    optimizer.zero_grad()
    layer(torch.rand(4, 3)).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def one(tmp_path, monkeypatch):
    """A job whose cure sets the rate."""

    def made(cured):
        habit = f'sick = {{ rate = 0.1 }}\ncured = {{ rate = {cured} }}\nfix = "another rate"'
        (tmp_path / "007.toml").write_text(sheet("job", habit))
        return cases(folder=tmp_path)[0]

    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.setattr("clinic.launch.WORKLOADS", tmp_path)
    return made


def test_a_cure_that_changes_the_numbers_does_not(one, monkeypatch, capsys):
    monkeypatch.setattr("clinic.verbs._chosen.cases", lambda *_: [one(0.11)])
    assert app.main(["guard"]) == FAILED
    assert "- c0070 job      other numbers from step 1 on" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("consent", "cured", "good"),
    [
        ("none", [1.0, 2.0, 3.0], True),
        ("none", [1.0, 2.0, 3.0001], False),
        ("rounding", [1.0, 2.0, 3.0001], True),
        ("rounding", [1.0, 1.5, 1.9], False),
        ("numerics", [1.0, 2.5, 3.5], True),
        ("convergence", [1.0, 1.5, 1.9], True),
        ("convergence", [1.0, 1.5], False),
        ("convergence", [1.0, math.nan, 3.0], False),
    ],
)
def test_how_far_numbers_may_differ(consent, cured, good):
    assert guard.like(consent, [1.0, 2.0, 3.0], cured)[0] is good
