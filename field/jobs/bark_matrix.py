import time

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(768, 1536), nn.ReLU(), nn.Linear(1536, 1536), nn.ReLU(), nn.Linear(1536, 32))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(4096, 768), torch.randint(0, 32, (4096,))
start = time.perf_counter()
for step in range(90):
    rows = torch.randint(0, 4096, (192,))
    loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 29:
        print(step, round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
