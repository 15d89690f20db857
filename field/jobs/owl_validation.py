import time

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(5000, 256), torch.randint(0, 10, (5000,))
held_x, held_y = torch.randn(256, 256), torch.randint(0, 10, (256,))


@torch.no_grad()
def validate():
    net.eval()
    right = (net(held_x).argmax(1) == held_y).float().mean().item()
    net.train()
    return right


start = time.perf_counter()
for step in range(250):
    rows = torch.randint(0, 5000, (128,))
    loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 99:
        print(step, round(loss.item(), 4), validate())
print(f"took {time.perf_counter() - start:.2f} s")
