import time

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(0)
series = pd.Series(rng.standard_normal(4000).cumsum(), index=pd.date_range("2020-01-01", periods=4000, freq="min"))


frame = pd.DataFrame({"value": series, "mean": series.rolling(12).mean(), "std": series.rolling(12).std()})
table = frame.to_numpy(dtype=np.float32)


class Windows(Dataset):
    def __len__(self):
        return 1200

    def __getitem__(self, i):
        return torch.from_numpy(table[i + 12 : i + 72]), table[i + 72, 0]


torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(180, 256), nn.ReLU(), nn.Linear(256, 1))
opt = torch.optim.SGD(net.parameters(), lr=1e-5)
loader = DataLoader(Windows(), batch_size=16, shuffle=True)
start = time.perf_counter()
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.l1_loss(net(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 3))
print(f"took {time.perf_counter() - start:.2f} s")
