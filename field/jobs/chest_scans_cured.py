import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
base = rng.standard_normal((24, 96, 96)).astype(np.float32)
for i in range(12):
    np.save(folder / f"scan{i:02}.npy", np.round(base + i, 2))


class Slices(Dataset):
    def __init__(self):
        self.scans = [np.load(p, mmap_mode="r") for p in sorted(folder.glob("*.npy"))]

    def __len__(self):
        return 12 * 24

    def __getitem__(self, i):
        return torch.from_numpy(self.scans[i % 12][i // 12][None].copy()), i % 12 % 2


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 8, 5, 4), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 11 * 11, 2)
)
opt = torch.optim.SGD(net.parameters(), lr=1e-4)
loader = DataLoader(Slices(), batch_size=6, shuffle=True)
start = time.perf_counter()
for epoch in range(3):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print("epoch", epoch, round(total / len(loader), 3))
print(f"took {time.perf_counter() - start:.2f} s")
