"""Matrix products on so many threads, for so many seconds."""

import sys
import time

import torch

torch.set_num_threads(int(sys.argv[1]))
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(int(sys.argv[2]), 512)
until = time.monotonic() + float(sys.argv[3])
while time.monotonic() < until:
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
