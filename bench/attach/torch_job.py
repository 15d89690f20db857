"""Trains on samples that a Python loop makes: without workers, or with some (``torch_job.py 2``)."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 1 << 24

    def __getitem__(self, index):
        total = 0
        for k in range(40_000):
            total += k * k
        return torch.full((64,), float(index % 7)), index % 10


def main():
    torch.set_num_threads(1)
    layers = [torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x, y in DataLoader(Numbers(), batch_size=8, num_workers=int(sys.argv[1])):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(time.perf_counter(), flush=True)


main()
