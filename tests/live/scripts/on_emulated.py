"""Trains a small network on the emulated device; tells in a file when it waited for a batch."""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import emulator.device


class Samples(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        return torch.randn(64, generator=torch.Generator().manual_seed(index)), index % 10


def timed(loader, waits):
    batches = iter(loader)
    while True:
        begin = time.perf_counter_ns()
        batch = next(batches)
        waits.append((begin, time.perf_counter_ns()))
        yield batch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--load", type=float, default=0.0, help="seconds to load a sample")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--read", action="store_true", help="read the loss in every step")
    parser.add_argument("--waits", default="waits.json")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("emulated")
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(
        Samples(args.load), batch_size=16, num_workers=args.workers, pin_memory=True
    )
    waits, end = [], time.monotonic() + args.seconds
    for step, (values, labels) in enumerate(timed(loader, waits)):
        values = values.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(model(values), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if args.read or step % 100 == 0:
            print(step, loss.item())
        if time.monotonic() > end:
            break
    with open(args.waits, "w") as file:
        json.dump(waits, file)


if __name__ == "__main__":
    main()
