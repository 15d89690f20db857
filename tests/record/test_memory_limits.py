"""`whyidle run --for`: what it says would fit, against processes with that much memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from whyidle.__main__ import main

JOB = """
import resource, sys, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
F = nn.functional
def held():
    with open("/proc/self/status") as file:
        return int(file.read().partition("VmSize:")[2].split()[0]) << 10
def train(make, batch, steps):
    model, draw, loss = make()
    optimizer = torch.optim.{optimizer}(model.parameters(), 1e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, draw(batch)).backward()
        optimizer.step()
def linear():
    model = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(width, width), nn.GELU())])
    return model, lambda n: torch.randn(n, width), lambda m, x: m(x).square().mean()
def image():
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                          nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
                          nn.Linear(16 * 32 * 32, 10))
    return model, lambda n: torch.randn(n, 3, 32, 32), lambda m, x: m(x).square().mean()
def text():
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3)
    model = nn.Sequential(nn.Embedding(500, 64), encoder, nn.Linear(64, 500))
    def loss(m, x):
        return F.cross_entropy(m(x).flatten(0, 1), x.flatten())
    return model, lambda n: torch.randint(500, (n, 64)), loss
def sequence():
    model = nn.GRU(64, 256, batch_first=True)
    return model, lambda n: torch.randn(n, 64, 64), lambda m, x: m(x)[0].square().mean()
width, made = 64, {make}
if len(sys.argv) > 2:
    train(made, 2, 2)  # loads libraries
width, batch, steps = {width}, int(sys.argv[1]), 4
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_AS, (held() + int(sys.argv[2]),) * 2)
train(made, batch, steps)
"""
JOBS = [
    ("linear", "AdamW", 2000, 64),
    ("image", "AdamW", 0, 256),
    ("text", "AdamW", 0, 64),
    *(
        pytest.param(job, marks=pytest.mark.live)  # half a minute each
        for job in (
            ("linear", "SGD", 256, 8000),
            ("linear", "Adam", 1200, 2000),
            ("sequence", "SGD", 0, 256),
        )
    ),
]


@pytest.mark.real_processes("the address space of processes is limited")
@pytest.mark.parametrize("job", JOBS)
def test_what_fits_and_what_does_not(tmp_path, capsys, monkeypatch, job):
    make, optimizer, width, batch = job
    pytest.importorskip("torch")
    for name in ("OMP_NUM_THREADS", "MALLOC_ARENA_MAX", "MALLOC_TOP_PAD_"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")  # what is freed goes back
    (script := tmp_path / "job.py").write_text(
        JOB.replace("{make}", make).replace("{optimizer}", optimizer).replace("{width}", str(width))
    )
    told = dict[float, bool]()
    command = [sys.executable, str(script), str(batch)]
    main(["run", "--for", "80GB", "--stop-after", "7", "--json", "-", "--", *command])
    account = json.loads(capsys.readouterr().out)["memory"]
    assert account["usable"] == 0.9 * account["limit"]
    peak = account["peak"]
    for share in (0.8, 1.25):
        limit = round(share * peak)
        told[share] = peak <= limit
        ended = subprocess.run([*command, str(limit)], capture_output=True, check=False)
        assert (ended.returncode == 0) == told[share], ended.stderr[-500:]
