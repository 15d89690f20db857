"""Credit risk: a small network on a table of numbers that is in memory."""
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
table = torch.randn(100_000, 24)
risk = (table[:, :3].sum(1) > 0).float()
net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
loader = DataLoader(TensorDataset(table, risk), batch_size=1024, shuffle=True)
start = time.perf_counter()
for epoch in range(7):
    for x, y in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(net(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
