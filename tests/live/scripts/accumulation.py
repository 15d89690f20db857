"""Gradient accumulation, autocast, a gradient scaler, an IterableDataset."""

import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        made = torch.Generator().manual_seed(5)
        for _ in range(160):
            x = torch.randn(12, generator=made)
            yield x, x[:3].sum()


torch.manual_seed(5)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.GELU(), torch.nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", enabled=True)
for micro, (x, y) in enumerate(DataLoader(Stream(), batch_size=4), 1):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (model(x).squeeze(1) - y).square().mean() / 4
    if micro == 18:
        loss = loss * float("inf")  # a spike: the scaler skips this step
    scaler.scale(loss).backward()
    if micro % 4 == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(micro, loss.item(), scaler.get_scale())
