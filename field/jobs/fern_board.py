import tempfile
import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(0)
writer = SummaryWriter(tempfile.mkdtemp())
net = nn.Sequential(nn.Conv1d(8, 48, 7), nn.ReLU(), nn.Conv1d(48, 48, 7), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(192, 5))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
start = time.perf_counter()
for step in range(200):
    x, y = torch.randn(12, 8, 256), torch.randint(0, 5, (12,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        writer.add_scalar("loss", loss.item(), step)
        writer.add_scalar("rate", 0.01, step)
writer.close()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
