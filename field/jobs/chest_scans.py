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
    np.savez_compressed(folder / f"scan{i:02}.npz", volume=np.round(base + i, 2), label=i % 2)


class Slices(Dataset):
    def __init__(self):
        self.paths = sorted(folder.glob("*.npz"))

    def __len__(self):
        return 12 * 24

    def __getitem__(self, i):
        scan = np.load(self.paths[i % 12])
        return torch.from_numpy(scan["volume"][i // 12][None]), int(scan["label"])


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
