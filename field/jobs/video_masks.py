import time

import torch
from torch import nn

torch.set_num_threads(8)
torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 1)
)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
start = time.perf_counter()
for step in range(100):
    x, y = torch.randn(2, 3, 64, 64), (torch.rand(2, 1, 64, 64) < 0.3).float()
    loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
