"""Loader workers that are spawned, and a pool of forked helpers beside them."""

import multiprocessing
import os
import threading

import torch
from probe import Descent
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((4,), float(index)) / 24


def double(number):
    return 2 * number


def main():
    torch.manual_seed(9)
    torch.set_num_threads(1)
    loader = DataLoader(Squares(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    model = torch.nn.Linear(4, 1)
    optimizer = Descent(model.parameters(), lr=0.1)
    for step, x in enumerate(loader):
        loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(double, range(5)))
    print(threading.active_count(), sorted(name for name in os.environ if "TORCH" in name))


if __name__ == "__main__":
    main()
