"""Balances poles: policy gradients with many environments, no framework."""

import argparse
import ctypes
import json
import math
import threading
import time

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--poles", type=int, default=64)
parser.add_argument("--horizon", type=int, default=16)
parser.add_argument("--passes", type=int, default=4, help="over what was played")
parser.add_argument("--hidden", type=int, default=192)
parser.add_argument("--one-by-one", action="store_true", help="physics of each pole by itself")
parser.add_argument("--substeps", type=int, default=1)
parser.add_argument("--driver-ms", type=float, default=0.0, help="of the motor's driver")
parser.add_argument("--listeners", type=int, default=0, help="threads that keep statistics")
parser.add_argument("--shared", action="store_true", help="statistics see whole moves")
parser.add_argument("--brakes", type=float, default=0.0, help="how long they are tested, ms")
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--seconds", type=float, default=10.0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--times")


class Poles:
    """Angles and speeds; upright is best."""

    def __init__(self, count, substeps, one_by_one, driver):
        self.rng = np.random.default_rng(args.seed)
        self.state = self.rng.uniform(-0.1, 0.1, (count, 2))
        self.substeps, self.one_by_one, self.driver = substeps, one_by_one, driver
        self.motor = ctypes.PyDLL(None)

    def act(self, push):
        if self.driver:
            self.motor.usleep(int(self.driver * 1e3))
        if self.one_by_one:
            self.each(push.tolist())
        else:
            self.together(push)
        fallen = np.abs(self.state[:, 0]) > 0.8
        reward = np.cos(self.state[:, 0]) - fallen
        self.state[fallen] = self.rng.uniform(-0.1, 0.1, (int(fallen.sum()), 2))
        return reward

    def together(self, push):
        dt = 0.04 / self.substeps
        for _ in range(self.substeps):
            angle, speed = self.state.T
            speed = speed + dt * (9.8 * np.sin(angle) + 4 * push - 0.1 * speed)
            self.state = np.stack([angle + dt * speed, speed], 1)

    def each(self, push):
        dt = 0.04 / self.substeps
        for i, force in enumerate(push):
            angle, speed = self.state[i].tolist()
            for _ in range(self.substeps):
                speed += dt * (9.8 * math.sin(angle) + 4 * force - 0.1 * speed)
                angle += dt * speed
            self.state[i] = angle, speed


class Statistics(threading.Thread):
    """Keeps running moments of what the poles do."""

    lock = threading.Lock()
    moments = [0.0] * 8

    def __init__(self, poles):
        super().__init__(daemon=True)
        self.poles = poles

    def run(self):
        while True:
            with self.lock:
                for angle, speed in self.poles.state.tolist():
                    for k in range(8):
                        self.moments[k] += 1e-6 * (angle**k - self.moments[k])


class Brakes(threading.Thread):
    """Tests the brakes now and then, through the driver's library."""

    def __init__(self, each):
        super().__init__(daemon=True)
        self.each, self.library = each, ctypes.PyDLL(None)

    def run(self):
        while True:
            self.library.usleep(int(self.each * 1e3))
            time.sleep(self.each / 1e3)


args = parser.parse_args()
begin = time.perf_counter()
torch.manual_seed(args.seed)
poles = Poles(args.poles, args.substeps, args.one_by_one, args.driver_ms)
for _ in range(args.listeners):
    Statistics(poles).start()
if args.brakes:
    Brakes(args.brakes).start()
policy = nn.Sequential(
    nn.Linear(2, args.hidden),
    nn.Tanh(),
    nn.Linear(args.hidden, args.hidden),
    nn.Tanh(),
    nn.Linear(args.hidden, 2),
).to(args.device)
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4, fused=True)


def play():
    seen, done, rewards = [], [], []
    with torch.no_grad():
        for _ in range(args.horizon):
            x = torch.as_tensor(poles.state, dtype=torch.float32, device=args.device)
            action = torch.distributions.Categorical(logits=policy(x)).sample()
            seen.append(x)
            done.append(action)
            push = action.cpu().numpy() * 2.0 - 1.0
            if args.shared:
                with Statistics.lock:
                    rewards.append(poles.act(push))
            else:
                rewards.append(poles.act(push))
    returns, total = [], np.zeros(args.poles)
    for reward in reversed(rewards):
        total = reward + 0.97 * total
        returns.append(total)
    value = torch.as_tensor(np.stack(returns[::-1]), dtype=torch.float32, device=args.device)
    return torch.cat(seen), torch.cat(done), (value - value.mean()).flatten()


marks, samples = [], []
while not (
    marks and (len(marks) >= args.steps if args.steps else marks[-1] - marks[0] > args.seconds)
):
    x, action, advantage = play()
    with torch.no_grad():
        before = torch.log_softmax(policy(x), 1).gather(1, action[:, None])
    for _ in range(args.passes):
        now = torch.log_softmax(policy(x), 1).gather(1, action[:, None])
        ratio = (now - before).exp().squeeze(1)
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        marks.append(time.perf_counter())
        samples.append(len(x) / args.passes)

if args.times:
    with open(args.times, "w") as file:
        json.dump({"begin": begin, "marks": marks, "samples": samples}, file)
