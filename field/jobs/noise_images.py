import time

import torch
from torch import nn

torch.manual_seed(0)
STEPS = 40
keep = torch.linspace(0.999, 0.9, STEPS).cumprod(0)
net = nn.Sequential(nn.Conv2d(2, 24, 3, padding=1), nn.SiLU(), nn.Conv2d(24, 24, 3, padding=1), nn.SiLU(), nn.Conv2d(24, 1, 3, padding=1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)


def noise_of(x, t):
    return net(torch.cat([x, t.view(-1, 1, 1, 1).expand(-1, 1, 28, 28) / STEPS], 1))


@torch.no_grad()
def sample(n, generator):
    x = torch.randn(n, 1, 28, 28, generator=generator)
    for t in reversed(range(STEPS)):
        x = (x - (1 - keep[t]).sqrt() * noise_of(x, torch.full((n,), float(t)))) / keep[t].sqrt().clamp(min=0.5)
    return x


pictures = torch.rand(256, 1, 28, 28)
own = torch.Generator().manual_seed(1)
EVERY = 8
start = time.perf_counter()
for step in range(240):
    x = pictures[torch.arange(step * 8, step * 8 + 8) % 256]
    t = torch.randint(0, STEPS, (8,))
    noise = torch.randn_like(x)
    noisy = keep[t].sqrt().view(-1, 1, 1, 1) * x + (1 - keep[t]).sqrt().view(-1, 1, 1, 1) * noise
    loss = nn.functional.mse_loss(noise_of(noisy, t.float()), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % EVERY == EVERY - 1:
        drawn = sample(8, own)
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
