"""Parts of tests against real services: waiting, cards that a file describes, and a job that waits
for its batches."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
GIB = 1 << 30
JOB = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.002:
            pass
        return torch.zeros(16), 0

torch.set_num_threads(1)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
opened = open_tracker()
end = time.time() + float(sys.argv[1])
for step, (x, y) in enumerate(DataLoader(Slow(), batch_size=8)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log(opened, step)
    if time.time() > end:
        break
close_tracker(opened)
"""


def write_job(folder: Path, tracker: str = "") -> Path:
    """A job; ``tracker`` defines the three functions of an experiment tracker."""
    nothing = "def open_tracker(): pass\ndef log(opened, step): pass\ndef close_tracker(o): pass\n"
    path = folder / "job.py"
    path.write_text((tracker or nothing) + JOB)
    return path


def write_cards(folder: Path, *cards: dict) -> dict[str, str]:
    """Describe cards; the environment in which a process sees them."""
    full = [
        {"uuid": f"GPU-{n}", "memory": [4 << 20, 80 * GIB], "busy": 0.0, "power_w": 70.0, **card}
        for n, card in enumerate(cards)
    ]
    path = folder / "cards.json"
    draft = folder / "cards.tmp"
    draft.write_text(json.dumps(full))
    draft.replace(path)
    paths = [str(REPOSITORY / "emulator" / "cards"), str(REPOSITORY)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WHYIDLE_CARDS": str(path)}


def need(*programs: str) -> None:
    """Skip the test where a program is missing."""
    if missing := [name for name in programs if shutil.which(name) is None]:
        pytest.skip(f"{missing[0]} is not installed (Debian: see the Makefile)")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_until(condition: Callable[[], object], seconds: float, every: float = 0.1) -> object:
    """What the condition returns once it is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if result := condition():
                return result
        except OSError:
            pass  # it has not started yet
        time.sleep(every)
    pytest.fail(f"not within {seconds} s")


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()
