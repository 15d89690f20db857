import tempfile
import time
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256))
opt = torch.optim.Adam(net.parameters(), 1e-4, foreach=True)
EVERY = 150
start = time.perf_counter()
for step in range(300):
    x = torch.randn(32, 256)
    loss = nn.functional.mse_loss(net(x), x.roll(1, 1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % EVERY == 0:
        torch.save({"model": net.state_dict(), "optimizer": opt.state_dict(), "step": step}, folder / "last.pt")
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
