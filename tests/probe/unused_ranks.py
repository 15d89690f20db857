"""One of two ranks that leave out the search for unused parameters: ``python unused_ranks.py RANK
FOLDER``. Each job runs with the search and then without; what both come to goes to ``RANK.json``.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from whyidle.probe import knobs
from whyidle.probe.knobs import _unused

STEPS = 7
KNOB = "ddp.find_unused_parameters"


class Within(torch.autograd.Function):
    """Has a backward pass of its own within the model's, as checkpointing has."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            torch.autograd.backward(torch.ones(1, requires_grad=True).sum())
        return grad


class Skipping(torch.nn.Module):
    """A model that leaves out layers when it is told to; its second output may be ignored."""

    def __init__(self, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(depth))
        self.head = torch.nn.Linear(4, 1)
        self.skipped = set()
        self.within = False

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            if number not in self.skipped:
                x = Within.apply(layer(x)) if self.within else layer(x)
        return x, self.head(x)


def never(rank, step):
    return set()


def later(rank, step):
    return {1} if step >= 3 else set()


def one(rank, step):
    return {1} if rank and step in (2, 4) else set()


def apart(rank, step):
    return {1 + rank, 3} if step >= 2 else set()


def many(rank, step):
    return set(range(10, 80)) if step % 2 else set()


JOBS = {
    "nothing": {"skips": never},
    "later": {"skips": later},
    "in the first step": {"skips": lambda rank, step: {0} if not step else set()},
    "one rank": {"skips": one},
    "apart": {"skips": apart},
    "many": {"skips": many, "depth": 90},
    "apart as views": {"skips": apart, "view": True},
    "kept zeros": {"skips": apart, "none": False},
    "kept zeros as views": {"skips": apart, "none": False, "view": True},
    "half of the outputs": {"skips": later, "head": lambda step: step < 4},
    "accumulated": {"skips": apart, "micro": 3},
    "used before the last pass": {"skips": one, "micro": 2, "last": {2}},
    "used before, as views": {"skips": apart, "micro": 2, "last": {2}, "none": False, "view": True},
    "beside another": {"skips": later, "beside": True},
    "passes within passes": {"skips": never, "within": True},
}


def train(rank, *, skips, depth=5, view=False, none=True, head=None, micro=1, **more):
    torch.manual_seed(0)
    net = Skipping(depth)
    net.within = more.get("within", False)
    model = DistributedDataParallel(net, find_unused_parameters=True, gradient_as_bucket_view=view)
    other = DistributedDataParallel(torch.nn.Linear(4, 4), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    made = torch.Generator().manual_seed(rank)
    grads = []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=none)
        for part in range(micro):
            net.skipped = skips(rank, step) | (more.get("last", set()) if part else set())
            x = torch.randn(3, 4, generator=made).requires_grad_()
            model.require_backward_grad_sync = part == micro - 1
            first, second = model(x)
            if more.get("beside"):
                other(x).sum().backward()
            loss = first.pow(2).mean()
            if head is None or head(step):
                loss = loss + second.pow(2).mean()
            loss.backward()
        grads.append([p.grad is None for p in model.parameters()])
        optimizer.step()
    state = [p.tolist() for p in model.parameters()]
    return {"state": state, "without grads": grads, "search": model.find_unused_parameters}


def compared(rank, folder, job):
    plain = train(rank, **job)
    hand = knobs.Hand(str(folder), {"edits": {KNOB: False}})
    hand.turn()
    without = train(rank, **job)
    hand.back()
    return {"plain": plain, "without": without, "told": [hand.applied, hand.declined]}


def alone(rank, folder):
    """Rank 0 knows of no plan; the other one then searches as well, and nobody waits for ever."""
    _unused.LONGEST_S = 0.5
    hand = knobs.Hand(str(folder), {"edits": {} if rank == 0 else {KNOB: False}})
    hand.turn()
    found = train(rank, skips=later)
    hand.back()
    return {"without": found, "told": [hand.applied, hand.declined]}


def main(rank, folder):
    warnings.filterwarnings("ignore", "find_unused_parameters=True")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = {name: compared(rank, folder, job) for name, job in JOBS.items()}
    found["alone"] = alone(rank, folder)
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
