import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

share = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
for i in range(256):
    rng.standard_normal(784).astype(np.float32).tofile(share / f"{i}.bin")


def read_remote(path):
    time.sleep(0.0015)
    with open(path, "rb") as file:
        return file.read()


class Shard(Dataset):
    def __init__(self):
        files = [bytearray(read_remote(share / f"{i}.bin")) for i in range(256)]
        self.rows = [torch.frombuffer(f, dtype=torch.float32) for f in files]

    def __len__(self):
        return 256

    def __getitem__(self, i):
        return self.rows[i], i % 10


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
loader = DataLoader(Shard(), batch_size=16, shuffle=True)
start = time.perf_counter()
for epoch in range(8):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
