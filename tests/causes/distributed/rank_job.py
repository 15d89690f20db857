"""Two ranks over gloo that train in a way told by name: ``rank_job.py NAME``."""

import gc
import os
import subprocess
import sys

NAME = sys.argv[1]
RANK = int(os.environ["RANK"])
CORES = sorted(os.sched_getaffinity(0))
if NAME in ("slow", "apart"):
    os.sched_setaffinity(0, {CORES[RANK]})  # before any thread is started

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(0)


def layers(count, width):
    return torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(count)])


class Offsets(torch.nn.Module):
    """Many small parameters, and little else."""

    def __init__(self, count=6000):
        super().__init__()
        self.all = [torch.nn.Parameter(torch.ones(4)) for _ in range(count)]
        for number, parameter in enumerate(self.all):
            self.register_parameter(f"offset{number}", parameter)

    def forward(self, x):
        return torch.stack(self.all).sum(0) * x


def train(model, steps, batch, width, *, micro=1, sync=True):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    x = torch.randn(batch, width)
    for _ in range(steps):
        for part in range(micro):
            model.require_backward_grad_sync = sync or part == micro - 1
            loss = model(x).square().mean()
            loss.backward()  # backward
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def micro(sync):
    model = DistributedDataParallel(layers(2, 1024))
    return train(model, 15, 48, 1024, micro=8, sync=sync)


def search(wanted):
    model = DistributedDataParallel(Offsets(), find_unused_parameters=wanted)  # wrapped
    gc.collect()
    gc.freeze()  # thousands of parameters that no collection needs to look at
    return train(model, 40, 4, 4)


def work(batch):
    return train(DistributedDataParallel(layers(4, 256)), 80, batch, 256)


def slow():
    """The core of one rank has something else to do as well."""
    hog = None
    if RANK == 1:
        hog = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        return work(1024)
    finally:
        if hog is not None:
            hog.kill()
            hog.wait()


JOBS = {
    "micro": lambda: micro(sync=True),
    "accumulated": lambda: micro(sync=False),
    "search": lambda: search(wanted=True),
    "found": lambda: search(wanted=False),
    "uneven": lambda: work(2048 if RANK == 1 else 512),
    "even": lambda: work(2048),
    "slow": slow,
    "apart": lambda: work(2048),
}

dist.init_process_group("gloo")
JOBS[NAME]()
dist.barrier()
if RANK == 0:
    print(NAME)
dist.destroy_process_group()
