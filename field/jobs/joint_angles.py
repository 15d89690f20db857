import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Angles(Dataset):
    def __init__(self):
        self.frames = np.random.default_rng(0).standard_normal((4000, 66)).astype(np.float32)

    def __len__(self):
        return 160

    def __getitem__(self, i):
        window = self.frames[i * 20 : i * 20 + 32]
        return torch.from_numpy(np.cumsum(window, 0) * 0.01), torch.from_numpy(window[16])


torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(32 * 66, 512), nn.ReLU(), nn.Linear(512, 66))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
loader = DataLoader(Angles(), batch_size=16, num_workers=2)
start = time.perf_counter()
for epoch in range(30):
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
