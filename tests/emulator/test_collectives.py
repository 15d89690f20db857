"""Two processes, each with a device: numbers are reduced, and times agree."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import whyidle
from emulator.environment import add_emulator

pytestmark = [
    pytest.mark.real_processes("ranks meet by the clock"),
    pytest.mark.skipif(
        not torch.distributed.is_available(), reason="a PyTorch without collectives"
    ),
]
SOURCE = str(Path(whyidle.__file__).parent.parent)
HEAD = """
import sys
import torch, torch.distributed as dist
import emulator.device as emulated
emulated.configure(network_bandwidth=1e8, network_ns=0)
dist.init_process_group("emulated")
rank = dist.get_rank()
"""
REDUCE = """
values = torch.full((250_000,), float(rank + 1), device="emulated")
torch.emulated.synchronize()
emulated.spend(40 if rank else 1)
begun = torch.emulated.Event(enable_timing=True); begun.record()
dist.all_reduce(values)
assert values[:2].tolist() == [3.0, 3.0]
dist.barrier()
"""


ABORTED = "terminate called without an active exception"
"""PyTorch 2.13 by itself ends one of twelve ranks over gloo so when it leaves"""


def together(text: str, folder: Path) -> list[dict]:
    """Run it as two ranks; what each of them truly did. What PyTorch aborted is run again."""
    for _ in range(3):
        ended = _ended(text, folder)
        if not any(code and ABORTED in told for code, told in ended):
            break
    for code, told in ended:
        assert code == 0, told
    return [json.loads((folder / f"truth-{rank}.json").read_text()) for rank in range(2)]


def _ended(text: str, folder: Path) -> list[tuple[int, str]]:
    """The exit status and the errors of each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = folder / "job.py"
    script.write_text(HEAD + text + "\ndist.destroy_process_group()\n")
    children = []
    for rank in range(2):
        env = {
            **add_emulator({**os.environ, "PYTHONPATH": SOURCE}),
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WHYIDLE_EMULATED_TRUTH": str(folder / f"truth-{rank}.json"),
        }
        children.append(
            subprocess.Popen([sys.executable, script], env=env, stderr=subprocess.PIPE, text=True)
        )
    told = [child.communicate(timeout=100)[1] for child in children]
    return [(child.returncode, text) for child, text in zip(children, told, strict=True)]


def exchanges(truth: dict) -> list[list]:
    streams = truth["devices"][0]["streams"]
    return [b for stream in streams for b in stream["busy"] if b[2] == "communication"]


def test_the_early_rank_waits_on_its_device_for_the_late_one(tmp_path: Path):
    ranks = [exchanges(truth) for truth in together(REDUCE, tmp_path)]
    (early,), (late,) = sorted(ranks)  # a busy machine may hold up the other for longer
    assert early[1] == late[1]
    assert late[1] - late[0] == 10_000_000  # a megabyte, twice times a half, at 100 MB/s
    assert early[0] < late[0]
