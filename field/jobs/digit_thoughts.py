import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(200_000, 64), torch.randint(0, 10, (200_000,)))
loader = DataLoader(data, batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
seen = []
start = time.perf_counter()
for iteration in range(220):
    x, y = next(iter(loader))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if iteration >= 170:
        seen.append(loss.detach())
print("loss", round(torch.stack(seen).mean().item(), 1))
print(f"took {time.perf_counter() - start:.2f} s")
