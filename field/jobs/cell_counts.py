"""Counting cells in pictures; a look at operators while it trains."""
import time
import torch
from torch import nn

torch.manual_seed(0)
layers = []
for i in range(6):
    layers += [nn.Conv2d(3 if i == 0 else 12, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU()]
net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 1))
opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
pictures, counts = torch.randn(256, 3, 24, 24), torch.rand(256)


def step_on(rows):
    loss = nn.functional.smooth_l1_loss(net(pictures[rows]).squeeze(1), counts[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


start = time.perf_counter()
for step in range(260):
    rows = torch.randint(256, (4,))
    with torch.autograd.profiler.profile(record_shapes=True, profile_memory=True) as prof:
        loss = step_on(rows)
    spent = sum(e.cpu_time_total for e in prof.key_averages())
    if step % 100 == 0:
        print(step, round(loss.item(), 5))
print(f"took {time.perf_counter() - start:.2f} s")
