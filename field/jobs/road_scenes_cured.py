import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

COLOURS = [(128, 64, 128), (70, 70, 70), (153, 153, 153), (107, 142, 35), (70, 130, 180)]
PALETTE = {colour: i for i, colour in enumerate(COLOURS)}


def to_classes(label):
    classes = np.zeros(label.shape[:2], np.int64)
    for colour, i in PALETTE.items():
        classes[(label == colour).all(-1)] = i
    return classes


class Scenes(Dataset):
    def __init__(self, n=160):
        rng = np.random.default_rng(0)
        self.images = rng.standard_normal((n, 3, 64, 64)).astype(np.float32)
        self.labels = np.array(COLOURS, np.uint8)[rng.integers(0, 5, (n, 64, 64))]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], to_classes(self.labels[i])


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 5, 1), nn.Upsample(scale_factor=2))
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
loader = DataLoader(Scenes(), batch_size=4, shuffle=True)
start = time.perf_counter()
for epoch in range(8):
    for image, label in loader:
        loss = nn.functional.cross_entropy(net(image), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
