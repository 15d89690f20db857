"""One of two ranks that turn knobs of DistributedDataParallel: ``python ddp_ranks.py RANK FOLDER``.

A process of its own, since PyTorch's threads do not survive a fork. What it finds, by name, goes to
``RANK.json`` in the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.utils.clip_grad
from torch.nn.parallel import DistributedDataParallel

from whyidle.probe import knobs

CLIPPING = {"": None, " clipped": torch.nn.utils, " clipped there": torch.nn.utils.clip_grad}
WARM = 10
"""steps before an exchange of another kind"""
EPOCH = 7
"""micro-batches: two steps of three, and one of what is left"""


def turned(edits, folder):
    session = knobs.KnobSession(str(folder), {"edits": edits})
    session.apply_knobs()
    return session


def accumulating(edits, clip, rank, folder):
    session = turned(edits, folder)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = torch.Generator().manual_seed(rank)
    for _ in range(2):
        for number in range(1, EPOCH + 1):
            model(torch.randn(3, 4, generator=made)).pow(2).mean().backward()
            if number % 3 == 0 or number == EPOCH:
                if clip:
                    clip.clip_grad_norm_(model.parameters(), 0.05)
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        model(torch.randn(3, 4, generator=made))
        model.train()
    found = [p.tolist() for p in model.parameters()], dict(session.applied)
    session.undo_changes()
    return found


WORK = {
    **{
        name + how: lambda *where, edits=edits, clip=clip: accumulating(edits, clip, *where)
        for name, edits in (("plain", {}), ("no sync", {"ddp.no_sync": 3}))
        for how, clip in CLIPPING.items()
    },
}


def main(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = {name: work(rank, folder) for name, work in WORK.items()}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
