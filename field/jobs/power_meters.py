import time

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(0)
series = pd.Series(rng.standard_normal(4000).cumsum(), index=pd.date_range("2020-01-01", periods=4000, freq="min"))


class Windows(Dataset):
    def __len__(self):
        return 1200

    def __getitem__(self, i):
        window = series.iloc[i : i + 72]
        frame = pd.DataFrame({"value": window, "mean": window.rolling(12).mean(), "std": window.rolling(12).std()})
        x = frame.iloc[12:].to_numpy(dtype=np.float32)
        return torch.from_numpy(x), np.float32(series.iloc[i + 72])


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
