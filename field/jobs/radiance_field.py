import time

import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)


class Field(nn.Module):
    def __init__(self, depth=8, width=64):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(39 if i == 0 else width, width) for i in range(depth)])
        self.out = nn.Linear(width, 4)

    def forward(self, points):
        waves = [points, *(f(points * 2**k) for k in range(6) for f in (torch.sin, torch.cos))]
        h = torch.cat(waves, -1)
        for layer in self.layers:
            h = layer(h).relu()
        return self.out(h)


def render(field, origin, direction):
    depth = torch.linspace(2, 6, 24)
    points = origin[:, None] + direction[:, None] * depth[:, None]
    raw = field(points)
    alpha = 1 - torch.exp(-raw[..., 3].relu() * 0.17)
    clear = torch.cumprod(torch.cat([torch.ones(len(alpha), 1), 1 - alpha + 1e-10], 1), 1)[:, :-1]
    return ((alpha * clear)[..., None] * raw[..., :3].sigmoid()).sum(1)


torch.manual_seed(0)
field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=5e-4, foreach=True)
start = time.perf_counter()
for step in range(250):
    origin, direction = torch.randn(16, 3) * 0.1, nn.functional.normalize(torch.randn(16, 3), dim=1)
    loss = (render(field, origin, direction) - direction.abs()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        print(step, round(loss.item(), 5))
print(f"took {time.perf_counter() - start:.2f} s")
