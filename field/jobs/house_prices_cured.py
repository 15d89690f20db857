import time

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES = [f"f{i}" for i in range(24)]


class Houses(Dataset):
    def __init__(self, frame):
        self.x = frame[FEATURES].to_numpy(dtype=np.float32)
        self.y = frame["price"].to_numpy(dtype=np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


rng = np.random.default_rng(0)
frame = pd.DataFrame(rng.standard_normal((6000, 24)), columns=FEATURES)
frame["price"] = frame.sum(axis=1) + 0.1 * rng.standard_normal(6000)
frame["city"] = rng.choice(["north", "south", "east"], 6000)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
loader = DataLoader(Houses(frame), batch_size=64, shuffle=True)
start = time.perf_counter()
for epoch in range(3):
    for x, y in loader:
        loss = (model(x).squeeze(1) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
print(f"took {time.perf_counter() - start:.2f} s")
