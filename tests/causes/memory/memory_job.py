"""Trains on rows of a file that lies in memory as far as there is room, beside a cache of its own.

The first word is the size of the cache, MB.
"""

import pathlib
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ROWS, ROW_BYTES, SECONDS = 640, 1 << 19, 12.0


class Rows(Dataset):
    def __init__(self, path, held):
        self.rows = np.memmap(path, np.uint8, "r", shape=(ROWS, ROW_BYTES))
        self.cache = np.ones(held << 20, np.uint8)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        row = self.rows[(index * 7919) % ROWS]
        return torch.full((64,), float(row[::512].sum() % 7))


def write(path):
    """Noise, which no file system makes smaller."""
    noise = np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(ROWS):
            file.write(noise.bytes(ROW_BYTES))


def main(held):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    path = pathlib.Path("rows.bin")
    write(path)
    rows = Rows(path, held)
    path.unlink()  # it is gone with the process
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    until, done = time.monotonic() + SECONDS, 0
    for x in DataLoader(rows, batch_size=4, shuffle=True):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        if time.monotonic() > until:
            break
    print(done, "steps", loss.item())


if __name__ == "__main__":
    main(int(sys.argv[1]))
