import time

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
cubes = rng.standard_normal((96, 1, 48, 48)).astype(np.float32)
horizon = rng.random((96, 1, 48, 48)).astype(np.float32)
net = nn.Sequential(
    nn.Flatten(), nn.Linear(2304, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 2304), nn.Unflatten(1, (1, 48, 48))
)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
start = time.perf_counter()
for step in range(140):
    rows = np.arange(step * 32, step * 32 + 32) % 96
    x, y = torch.from_numpy(cubes[rows]), torch.from_numpy(horizon[rows])
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
