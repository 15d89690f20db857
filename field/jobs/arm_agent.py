import random
import time

import numpy as np
import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
rng = np.random.default_rng(0)
buffer = [
    {"state": rng.standard_normal(376), "action": rng.standard_normal(17), "next": rng.standard_normal(376), "reward": rng.standard_normal()}
    for _ in range(3000)
]
actor = nn.Sequential(nn.Linear(376, 128), nn.ReLU(), nn.Linear(128, 17))
critic = nn.Sequential(nn.Linear(393, 128), nn.ReLU(), nn.Linear(128, 1))
opt = torch.optim.SGD([*actor.parameters(), *critic.parameters()], 1e-3)
start = time.perf_counter()
for update in range(450):
    batch = random.sample(buffer, 64)
    state = torch.tensor([b["state"] for b in batch], dtype=torch.float32)
    action = torch.tensor([b["action"] for b in batch], dtype=torch.float32)
    following = torch.tensor([b["next"] for b in batch], dtype=torch.float32)
    reward = torch.tensor([b["reward"] for b in batch], dtype=torch.float32)
    with torch.no_grad():
        target = reward + 0.9 * critic(torch.cat([following, actor(following)], 1)).squeeze(1)
    loss = (critic(torch.cat([state, action], 1)).squeeze(1) - target).square().mean()
    loss = loss - 0.01 * critic(torch.cat([state, actor(state)], 1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
