import time

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.Softplus(), nn.Conv2d(16, 32, 4, 2, 1), nn.Softplus(), nn.Flatten(), nn.Linear(32 * 64, 1))
maker = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 3 * 32 * 32), nn.Tanh())
critic_opt = torch.optim.SGD(critic.parameters(), lr=1e-3)
maker_opt = torch.optim.SGD(maker.parameters(), lr=1e-3)
EVERY = 16
start = time.perf_counter()
for step in range(150):
    real = torch.randn(8, 3, 32, 32).requires_grad_()
    fake = maker(torch.randn(8, 32)).view(8, 3, 32, 32)
    score = critic(real)
    loss = nn.functional.softplus(critic(fake.detach())).mean() + nn.functional.softplus(-score).mean()
    if step % EVERY == 0:
        slope = torch.autograd.grad(score.sum(), real, create_graph=True)[0]
        penalty = slope.square().sum((1, 2, 3)).mean()
        loss = loss + 0.05 * EVERY * penalty
    critic_opt.zero_grad()
    loss.backward()
    critic_opt.step()
    maker_loss = nn.functional.softplus(-critic(fake)).mean()
    maker_opt.zero_grad()
    maker_loss.backward()
    maker_opt.step()
print("losses", round(maker_loss.item(), 2))
print(f"took {time.perf_counter() - start:.2f} s")
