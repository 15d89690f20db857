import math
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

POINTS, SIDE, SIGMA = 5, 24, 2.0


def draw_targets(points):
    heat = np.zeros((POINTS, SIDE, SIDE), np.float32)
    for k, (px, py) in enumerate(points):
        for r in range(SIDE):
            for c in range(SIDE):
                distance = (r - py) ** 2 + (c - px) ** 2
                heat[k, r, c] = math.exp(-distance / (2 * SIGMA**2))
    return heat


class Poses(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.pictures = rng.standard_normal((480, 3, 48, 48)).astype(np.float32)
        self.points = rng.uniform(0, SIDE, (480, POINTS, 2))

    def __len__(self):
        return 480

    def __getitem__(self, i):
        return self.pictures[i], draw_targets(self.points[i])


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, POINTS, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3, foreach=True)
loader = DataLoader(Poses(), batch_size=8, shuffle=True)
start = time.perf_counter()
for epoch in range(3):
    for picture, target in loader:
        loss = nn.functional.mse_loss(net(picture), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 5))
print(f"took {time.perf_counter() - start:.2f} s")
