import math
import random
import time

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)


class Pole:
    def __init__(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]

    def step(self, action):
        x, v, a, w = self.state
        force = 10.0 if action else -10.0
        turn = (9.8 * math.sin(a) - math.cos(a) * force / 1.1) / 0.7
        self.state = [x + 0.02 * v, v + 0.02 * force, a + 0.02 * w, w + 0.02 * turn]
        return math.cos(self.state[2])


policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
opt = torch.optim.SGD(policy.parameters(), lr=0.01)
start = time.perf_counter()
for update in range(40):
    envs = [Pole() for _ in range(16)]
    chances, rewards = [], []
    for _ in range(12):
        logits = policy(torch.tensor([env.state for env in envs]))
        choice = torch.distributions.Categorical(logits=logits)
        actions = choice.sample()
        chances.append(choice.log_prob(actions))
        rewards += [env.step(action) for env, action in zip(envs, actions.tolist())]
    advantage = torch.tensor(rewards) - sum(rewards) / len(rewards)
    loss = -(torch.cat(chances) * advantage).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("reward", round(sum(rewards) / len(rewards), 2))
print(f"took {time.perf_counter() - start:.2f} s")
