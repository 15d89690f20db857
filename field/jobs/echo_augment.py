import time

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
waves = rng.standard_normal((600, 1, 1600)).astype(np.float32)
labels = torch.from_numpy(rng.integers(0, 8, 600))
net = nn.Sequential(nn.Conv1d(1, 32, 25, 2), nn.ReLU(), nn.Conv1d(32, 48, 9), nn.ReLU(), nn.AdaptiveAvgPool1d(2), nn.Flatten(), nn.Linear(96, 8))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
start = time.perf_counter()
for epoch in range(4):
    order = rng.permutation(600)
    for i in range(0, 600, 12):
        rows = order[i : i + 12]
        gain = rng.uniform(0.8, 1.2, (12, 1, 1)).astype(np.float32)
        x = torch.from_numpy(waves[rows] * gain)
        loss = nn.functional.cross_entropy(net(x), labels[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
