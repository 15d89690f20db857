import time

import torch
from torch import nn

torch.manual_seed(0)
cell = nn.GRUCell(16, 64)
head = nn.Linear(64, 16)
opt = torch.optim.SGD([{"params": head.parameters()}], lr=0.01)
wave = torch.sin(torch.arange(400.0)[:, None] * 0.1 + torch.arange(16.0)).unsqueeze(1).expand(-1, 8, -1)
state = torch.zeros(8, 64)
start = time.perf_counter()
for t in range(240):
    state = cell(wave[t], state.detach())
    loss = (head(state) - wave[t + 1]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if t % 60 == 59:
        print(t, round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
