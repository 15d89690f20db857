import random
import time
from collections import deque

import numpy as np
import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
rng = np.random.default_rng(0)
memory = deque(maxlen=200_000)
net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
opt = torch.optim.Adam(net.parameters(), 1e-3, foreach=True)
for _ in range(190_000):
    memory.append((rng.standard_normal(8, dtype=np.float32), random.randrange(4), random.random()))
start = time.perf_counter()
for step in range(700):
    for _ in range(8):
        memory.append((rng.standard_normal(8, dtype=np.float32), random.randrange(4), random.random()))
    rows = [memory[i] for i in random.sample(range(len(memory)), 256)]
    states = torch.from_numpy(np.stack([r[0] for r in rows]))
    actions = torch.tensor([r[1] for r in rows])
    rewards = torch.tensor([r[2] for r in rows])
    value = net(states).gather(1, actions.unsqueeze(1)).squeeze(1)
    loss = nn.functional.smooth_l1_loss(value, rewards)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
