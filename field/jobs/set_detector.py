import time

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

torch.manual_seed(0)
QUERIES, OBJECTS = 20, 6


@torch.no_grad()
def match(boxes, targets):
    pairs = []
    for predicted, wanted in zip(boxes, targets):
        cost = np.zeros((QUERIES, OBJECTS))
        for q, p in enumerate(predicted):
            for o, w in enumerate(wanted):
                cost[q, o] = (p - w).abs().sum().item()
        pairs.append(linear_sum_assignment(cost))
    return pairs


images = torch.randn(64, 256)
truth = torch.rand(64, OBJECTS, 4)
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, QUERIES * 4), nn.Sigmoid())
opt = torch.optim.SGD(net.parameters(), 0.05)
start = time.perf_counter()
for step in range(450):
    rows = torch.arange(step * 4, step * 4 + 4) % 64
    boxes = net(images[rows]).view(4, QUERIES, 4)
    loss = 0
    for (q, o), predicted, wanted in zip(match(boxes, truth[rows]), boxes, truth[rows]):
        loss = loss + nn.functional.l1_loss(predicted[q], wanted[o])
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
