import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Moths(Dataset):
    def __init__(self):
        self.waves = np.random.default_rng(0).standard_normal((400, 2048)).astype(np.float32)

    def __len__(self):
        return 400

    def __getitem__(self, i):
        wave = self.waves[i]
        return torch.from_numpy((wave - wave.mean()) / wave.std())[None], i % 6


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv1d(1, 32, 9, padding=4), nn.ReLU(), nn.Conv1d(32, 32, 9, padding=4), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 6)
)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
loader = DataLoader(Moths(), batch_size=8, shuffle=True, num_workers=1, persistent_workers=True)
start = time.perf_counter()
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
