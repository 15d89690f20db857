import time

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
clouds = rng.random((12, 1200, 3)).astype(np.float32)


def neighbours(points):
    return KDTree(points).query(points, 9)[1]


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 32))
        self.out = nn.Linear(32, 4)

    def forward(self, points, near):
        centre = points.unsqueeze(1).expand(-1, 9, -1)
        return self.out(self.edge(torch.cat([centre, points[near] - centre], -1)).amax(1))


nearest = [torch.from_numpy(neighbours(cloud)) for cloud in clouds]
model = Points()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
start = time.perf_counter()
for step in range(240):
    i = step % 12
    near = nearest[i]
    points = torch.from_numpy(clouds[i])
    loss = nn.functional.cross_entropy(model(points, near), (points[:, 0] * 4).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
