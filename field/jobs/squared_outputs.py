"""Fits a small network with everything of a step on two lines."""

import time

import torch; torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)); o = torch.optim.SGD(m.parameters(), .01)
losses = []; start = time.perf_counter()
for k in range(600):
    a = torch.randn(128, 256)
    loss = m(a).pow(2).mean(); o.zero_grad()
    loss.backward(); o.step(); losses.append(loss.item())
print("loss", losses[-1])
print(f"took {time.perf_counter() - start:.2f} s")
