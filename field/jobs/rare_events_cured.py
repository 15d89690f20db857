import time

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
N = 120_000
x = torch.randn(N, 48)
y = (torch.rand(N) < 0.02).float()
weights = np.where(y.numpy() > 0, 20.0, 1.0)
weights /= weights.sum()
net = nn.Sequential(nn.Linear(48, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
losses = []
cumulative = np.cumsum(weights)
start = time.perf_counter()
for step in range(1000):
    rows = torch.from_numpy(np.searchsorted(cumulative, rng.random(64)))
    loss = nn.functional.binary_cross_entropy_with_logits(net(x[rows]).squeeze(1), y[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.detach())
print("loss", round(torch.stack(losses[150:]).mean().item(), 1))
print(f"took {time.perf_counter() - start:.2f} s")
