import time

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(300, 900), nn.ReLU(), nn.Linear(900, 900), nn.ReLU(), nn.Linear(900, 12))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
start = time.perf_counter()
for step in range(45):
    opt.zero_grad()
    for part in range(4):
        x, y = torch.randn(128, 300), torch.randint(0, 12, (128,))
        loss = nn.functional.cross_entropy(net(x), y) / 4
        loss.backward()
    opt.step()
print("loss", round(4 * loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
