import random
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

random.seed(0)
SEQUENCES = ["".join(random.choices("ACGT", k=1000)) for _ in range(1200)]
BASES = ["A", "C", "T", "G"]


class Sites(Dataset):
    def one_hot(self, sequence):
        code = np.zeros((1000, 4), dtype=np.float32)
        for position, letter in enumerate(sequence):
            code[position, BASES.index(letter)] = 1
        return code.T

    def __len__(self):
        return len(SEQUENCES)

    def __getitem__(self, i):
        return torch.from_numpy(self.one_hot(SEQUENCES[i]).copy()), i % 2


torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(4, 8, 10, 5), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 199, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
loader = DataLoader(Sites(), batch_size=16, shuffle=True)
start = time.perf_counter()
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
