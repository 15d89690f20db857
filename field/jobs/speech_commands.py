import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def spectrogram(wave, size=512, hop=64):
    window = np.hanning(size)
    frames = np.stack([wave[i : i + size] * window for i in range(0, len(wave) - size, hop)])
    power = np.abs(np.fft.rfft(frames)) ** 2
    return np.log1p(power[:, :64]).astype(np.float32)


class Commands(Dataset):
    def __init__(self, n=320):
        rng = np.random.default_rng(0)
        self.waves = [rng.standard_normal(8000) for _ in range(n)]
        self.labels = rng.integers(0, 12, n)

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, i):
        return torch.from_numpy(spectrogram(self.waves[i])), int(self.labels[i])


torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(117 * 64, 128), nn.ReLU(), nn.Linear(128, 12))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
loader = DataLoader(Commands(), batch_size=16, shuffle=True)
start = time.perf_counter()
for epoch in range(8):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
