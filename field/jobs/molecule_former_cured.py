import time

import torch
from torch import nn

torch.manual_seed(0)


class Head(nn.Module):
    def __init__(self, n, width):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(n, width), nn.Linear(n, width), nn.Linear(n, width)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v


class Layer(nn.Module):
    def __init__(self, n=64, heads=8):
        super().__init__()
        self.heads = nn.ModuleList([Head(n, n // heads) for _ in range(heads)])
        self.out, self.norm = nn.Linear(n, n), nn.LayerNorm(n)

    def forward(self, x):
        h = self.norm(x)
        return x + self.out(torch.cat([head(h) for head in self.heads], -1))


model = nn.Sequential(Layer(), Layer(), nn.Flatten(), nn.Linear(20 * 64, 1))
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
start = time.perf_counter()
for step in range(80):
    x, y = torch.randn(16, 20, 64), torch.randn(16, 1)
    loss = nn.functional.l1_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
