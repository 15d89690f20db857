import time

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
cubes = rng.standard_normal((96, 1, 48, 48)).astype(np.float32)
horizon = rng.random((96, 1, 48, 48)).astype(np.float32)
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1)
)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
start = time.perf_counter()
for step in range(140):
    rows = np.arange(step * 4, step * 4 + 4) % 96
    x, y = torch.from_numpy(cubes[rows]), torch.from_numpy(horizon[rows])
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
