"""The page after `whyidle run --look memory`, which `--for` asks for as well."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from own_sgd import OWN_SGD

from whyidle.__main__ import main

JOB = f"""
{OWN_SGD}
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])
optimizer = SGD(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    model(torch.ones(32, 64)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.real_processes("a job is recorded")
def test_the_answer_comes_first_on_thirty_lines(capsys):
    pytest.importorskip("torch")
    Path("train.py").write_text(JOB)
    main(["run", "--for", "rtx4090", "--", sys.executable, "train.py"])
    told = capsys.readouterr().err
    lines = [line for line in told.splitlines() if line]
    first = lines.index(next(line for line in lines if "at the peak of a step" in line))
    assert first <= 3  # the end of the job, the rule, and the heading come before
    assert len(lines) <= 30, told
    assert "not checked" not in told
    assert "Traceback" not in told
    assert "what limits it on 8 ranks" in told
