"""PPO on sixteen simple environments: rollouts, advantages, then a few epochs of updates."""
import time
import torch
from torch import nn

torch.manual_seed(0)
ENVS, STEPS, GAMMA, LAMBDA = 16, 64, 0.99, 0.95


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 64), nn.Tanh())
        self.policy, self.value = nn.Linear(64, 3), nn.Linear(64, 1)

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Categorical(logits=self.policy(h)), self.value(h).squeeze(-1)


def advantages(rewards, values, dones, last):
    out = torch.zeros(STEPS, ENVS)
    for n in range(ENVS):
        run = torch.tensor(0.0)
        for t in reversed(range(STEPS)):
            after = last[n] if t == STEPS - 1 else values[t + 1, n]
            alive = 1.0 - dones[t, n]
            delta = rewards[t, n] + GAMMA * after * alive - values[t, n]
            run = delta + GAMMA * LAMBDA * alive * run
            out[t, n] = run
    return out


agent = Agent()
opt = torch.optim.Adam(agent.parameters(), 3e-4)
state = torch.randn(ENVS, 6)
start = time.perf_counter()
for update in range(36):
    xs, acts, logs, rewards, dones, values = [], [], [], [], [], []
    with torch.no_grad():
        for t in range(STEPS):
            pi, v = agent(state)
            act = pi.sample()
            xs.append(state), acts.append(act), logs.append(pi.log_prob(act)), values.append(v)
            state = 0.95 * state + 0.1 * torch.randn(ENVS, 6)
            state[:, 0] += 0.1 * (act - 1)
            rewards.append(-state[:, 0].abs())
            dones.append((torch.rand(ENVS) < 0.02).float())
        values = torch.stack(values)
        gain = advantages(torch.stack(rewards), values, torch.stack(dones), agent(state)[1])
        target = gain + values
    x, act, log, gain, target = (torch.stack(xs).flatten(0, 1), torch.cat(acts), torch.cat(logs), gain.flatten(), target.flatten())
    for epoch in range(4):
        for rows in torch.randperm(STEPS * ENVS).split(256):
            pi, v = agent(x[rows])
            ratio = (pi.log_prob(act[rows]) - log[rows]).exp()
            a = (gain[rows] - gain[rows].mean()) / (gain[rows].std() + 1e-8)
            loss = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean() + 0.5 * (v - target[rows]).pow(2).mean() - 0.01 * pi.entropy().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    if update % 10 == 0:
        print(update, round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
