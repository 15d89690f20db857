import time

import torch
from torch import nn

torch.manual_seed(0)
lyapunov = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
controller = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 4))
opt = torch.optim.SGD([*lyapunov.parameters(), *controller.parameters()], lr=0.01)


def derivative_loss(states):
    total = 0
    for state in states:
        following = state + 0.05 * controller(state)
        change = lyapunov(following) - 0.9 * lyapunov(state)
        total = total + torch.relu(change + 0.01 * state.square().sum()).sum()
    return total / len(states)


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
