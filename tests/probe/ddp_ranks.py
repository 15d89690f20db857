"""One of two ranks that turn knobs of DistributedDataParallel: ``python ddp_ranks.py RANK FOLDER``.

A process of its own, since PyTorch's threads do not survive a fork. What it finds, by name, goes to
``RANK.json`` in the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import small_jobs as jobs
import torch
import torch.distributed as dist
import torch.nn.utils.clip_grad
from torch.distributed import fsdp
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
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


def settings(rank, folder):
    edits = {"bucket_cap_mb": 1, "gradient_as_bucket_view": True, "static_graph": True}
    edits |= {"find_unused_parameters": False}
    session = turned({f"ddp.{name}": value for name, value in edits.items()}, folder)
    model = DistributedDataParallel(
        torch.nn.Linear(4, 2), None, None, 0, find_unused_parameters=True
    )
    model(torch.ones(1, 4)).sum().backward()
    session.undo_changes()
    made = {"bucket_cap_mb": model.bucket_bytes_cap >> 20}
    made |= {name: getattr(model, name) for name in edits if name not in made}
    return made == edits, session.applied


def hooks(rank, folder):
    found = []
    for name in ("bf16_compress_hook", "fp16_compress_hook"):  # the first one needs NCCL
        default_hooks.bf16_compress_hook = getattr(default_hooks, name)
        session = turned({"ddp.comm_hook": "bf16_compress"}, folder)
        model = DistributedDataParallel(jobs.model())
        torch.manual_seed(rank)
        model(torch.randn(2, 8)).sum().backward()
        grads = [p.grad.flatten()[0].item() for p in model.parameters()]
        found.append((grads, session.applied, session.declined))
        session.undo_changes()
    session = turned({"ddp.comm_hook": "bf16_compress"}, folder)
    own = DistributedDataParallel(torch.nn.Linear(4, 2))
    own.register_comm_hook(None, default_hooks.allreduce_hook)
    own(torch.ones(1, 4)).sum().backward()
    session.undo_changes()
    return [*found, (None, session.applied, session.declined)]


def learning(edits, wrap, rank, folder):
    """Losses, the sum of the parameters at the end, and what was done with the knobs."""
    session = turned(edits, folder)
    torch.manual_seed(0)
    model = wrap(torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made, losses = torch.Generator().manual_seed(rank), []
    for _ in range(WARM + 4):
        x = torch.randn(4, 16, generator=made)
        loss = (model(x) - x.flip(1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    session.undo_changes()
    whole = [getattr(p, "full_tensor", lambda p=p: p)() for p in model.parameters()]
    total = float(sum(p.detach().double().sum() for p in whole))
    return losses, total, session.applied, session.declined


def sharded(model):
    for layer in model:
        fsdp.fully_shard(layer)
    return fsdp.fully_shard(model)


LEARNING = {
    "every step": ({}, DistributedDataParallel),
    "static": ({"ddp.static_graph": True}, DistributedDataParallel),
    "fp16": ({"ddp.comm_hook": "fp16_compress"}, DistributedDataParallel),
    "low rank": ({"ddp.comm_hook": "powersgd"}, DistributedDataParallel),
    "sharded": ({}, sharded),
    "kept": ({"fsdp.reshard_after_forward": False}, sharded),
}
WORK = {
    **{name: lambda *where, case=case: learning(*case, *where) for name, case in LEARNING.items()},
    **{
        name + how: lambda *where, edits=edits, clip=clip: accumulating(edits, clip, *where)
        for name, edits in (("plain", {}), ("no sync", {"ddp.no_sync": 3}))
        for how, clip in CLIPPING.items()
    },
    "settings": settings,
    "hooks": hooks,
}


def main(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = {name: work(rank, folder) for name, work in WORK.items()}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
