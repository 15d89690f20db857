"""The callback for Ray Tune, on a real local Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not in your package index")

CALLBACK = """
import ray
from ray import tune
from whyidle.integrations import RayTuneCallback, watched_trainable

def train(config):
    import time, torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 80
        def __getitem__(self, index):
            time.sleep(0.004)
            return torch.randn(8)
    for epoch in range(config["epochs"]):
        for batch in torch.utils.data.DataLoader(Slow(), batch_size=4):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
        tune.report({"loss": loss.item()})

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
callback = RayTuneCallback()
config = tune.RunConfig(
    storage_path=__import__("os").getcwd() + "/results",
    callbacks=[callback],
    stop={"training_iteration": 2},
)
space = {"lr": 0.1, "epochs": tune.grid_search([1, 9])}
tuner = tune.Tuner(watched_trainable(train), param_space=space, run_config=config)
for result in tuner.fit():
    found = result.metrics
    print("FOUND", found["whyidle.state"], "whyidle.cause" in found, found["whyidle.hours"] > 0)
"""


def test_trials_of_ray_tune_carry_a_verdict_and_their_cost(tmp_path: Path):
    pytest.importorskip("torch")
    (tmp_path / "job.py").write_text(CALLBACK)
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert len(lines) == 2, done.stderr  # one that ended, one that Ray has ended
    for _, state, *held in lines:
        assert state in ("starved", "inefficient", "saturated", "inconclusive")
        assert held == ["True", "True"]
