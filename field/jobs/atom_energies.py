import time

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(60, 64), nn.Tanh(), nn.Linear(64, 3))
opt = torch.optim.Adam(net.parameters(), 1e-3, foreach=True)
errors, forces = np.zeros(0), np.zeros((0, 3))
start = time.perf_counter()
for step in range(700):
    x = torch.randn(512, 60)
    y = x[:, :3].sin()
    out = net(x)
    loss = nn.functional.mse_loss(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    errors = np.append(errors, (out.detach() - y).norm(dim=1).numpy())
    forces = np.append(forces, out.detach().numpy(), axis=0)
print("loss", round(loss.item(), 5), round(float(np.percentile(errors, 90)), 3), len(forces))
print(f"took {time.perf_counter() - start:.2f} s")
