import time

import torch
from torch import nn

torch.manual_seed(0)
lyapunov = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
controller = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 4))
opt = torch.optim.SGD([*lyapunov.parameters(), *controller.parameters()], lr=0.01)


def derivative_loss(states):
    following = states + 0.05 * controller(states)
    change = lyapunov(following) - 0.9 * lyapunov(states)
    return torch.relu(change.squeeze(1) + 0.01 * states.square().sum(1)).mean()


samples = torch.randn(512, 4)
start = time.perf_counter()
for step in range(120):
    states = samples[torch.arange(step * 48, step * 48 + 48) % 512]
    loss = derivative_loss(states)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 5))
print(f"took {time.perf_counter() - start:.2f} s")
