"""DistributedDataParallel over gloo, under torchrun."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(8)
torch.set_num_threads(1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
made = torch.Generator().manual_seed(rank)
for step in range(12):
    loss = model(torch.randn(4, 8, generator=made)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach_())
    if rank == 0:
        print(step, os.environ["WORLD_SIZE"], loss.item())
dist.barrier()  # who leaves first may break the last exchange of the others
dist.destroy_process_group()
