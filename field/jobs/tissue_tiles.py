import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

path = Path(tempfile.mkdtemp()) / "tiles.h5"
rng = np.random.default_rng(0)
with h5py.File(path, "w") as file:
    for name in ("tiles", "stain", "mask", "coords"):
        file.create_dataset(name, data=rng.integers(0, 255, (1600, 16, 16), dtype=np.uint8), chunks=(1, 16, 16))


class Tiles(Dataset):
    def __init__(self, path):
        self.path = path
        self.keys = ["tiles", "stain", "mask"]

    def __len__(self):
        return 1600

    def __getitem__(self, index):
        with h5py.File(self.path, "r", swmr=True) as file:
            planes = {k: file[k][index] for k in self.keys}
        x = np.stack([planes["tiles"], planes["stain"]]).astype(np.float32) / 127.5 - 1
        return torch.from_numpy(x), int(planes["mask"].sum() % 4)


torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
loader = DataLoader(Tiles(path), batch_size=16, shuffle=True)
start = time.perf_counter()
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
