import tempfile
import time
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())
net = nn.Sequential(nn.Conv1d(4, 40, 9), nn.ReLU(), nn.Conv1d(40, 40, 9), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(40, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
start = time.perf_counter()
for step in range(220):
    x, y = torch.randn(10, 4, 400), torch.randint(0, 3, (10,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 99:
        torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, folder / f"{step}.pt")
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
