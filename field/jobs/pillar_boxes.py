"""A detector on pillars: anchors of six classes are assigned to the boxes of each scene."""
import time
import torch
from torch import nn

torch.manual_seed(0)
CLASSES, GRID, BATCH = 6, 24, 12
grid = (torch.arange(GRID) + 0.5) / GRID
centre = torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
sizes = torch.linspace(0.06, 0.26, CLASSES)
anchors = torch.stack([torch.cat([centre, torch.full_like(centre, float(s))], 1) for s in sizes])  # class, cell, 4


def overlap(a, b):
    low = torch.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    high = torch.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    inter = (high - low).clamp(min=0).prod(-1)
    return inter / (a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - inter)


def assign(boxes, labels):
    targets = torch.zeros(len(boxes), CLASSES, GRID * GRID)
    for n in range(len(boxes)):
        for c in range(CLASSES):
            for k in range(boxes.shape[1]):
                if int(labels[n, k]) != c:
                    continue
                iou = overlap(anchors[c], boxes[n, k])
                targets[n, c] = torch.maximum(targets[n, c], (iou > 0.4).float())
                best = int(iou.argmax())
                targets[n, c, best] = 1
    return targets


net = nn.Sequential(
    nn.Conv2d(8, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, CLASSES, 1)
)
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
clouds = torch.randn(96, 8, GRID, GRID)
boxes = torch.cat([torch.rand(96, 14, 2) * 0.8 + 0.1, torch.rand(96, 14, 2) * 0.2 + 0.05], 2)
labels = torch.randint(CLASSES, (96, 14))
start = time.perf_counter()
for step in range(420):
    pick = torch.randint(96, (BATCH,))
    targets = assign(boxes[pick], labels[pick])
    out = net(clouds[pick]).flatten(2)
    loss = nn.functional.binary_cross_entropy_with_logits(out, targets)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(step, round(loss.item(), 5))
print(f"took {time.perf_counter() - start:.2f} s")
