"""Classifies synthetic pictures with a small convolutional network.

The pictures are decoded and distorted on the CPU by the DataLoader, as usual.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from pace import Pace


class Pictures(Dataset):
    """Random pictures, each distorted on the CPU when it is read."""

    def __init__(self, size, work):
        rng = np.random.default_rng(0)
        self.pictures = rng.integers(0, 256, (64, 3, size, size), dtype=np.uint8)
        self.work = work

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        picture = self.pictures[index % 64].astype(np.float32) / 255
        for _ in range(self.work):
            picture = np.sort(picture, axis=2) * 0.5 + picture * 0.5
        return torch.from_numpy(picture), index % 10


def build_network(width, depth):
    """A stack of strided convolutions, more of the last size, and a linear classifier."""
    more = [
        part
        for _ in range(depth)
        for part in (nn.Conv2d(2 * width, 2 * width, 3, padding=1, bias=False), nn.ReLU())
    ]
    return nn.Sequential(
        nn.Conv2d(3, width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.ReLU(),
        *more,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 10),
    )


def repeat_batch(loader, device):
    """The first batch, on the device, for ever."""
    pictures, labels = next(iter(loader))
    batch = pictures.to(device), labels.to(device)
    while True:
        yield batch


def time_loader(loader, pace):
    """Take batches and do nothing with them."""
    for _ in loader:
        if pace.finish_step():
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--work", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--resident", action="store_true")
    parser.add_argument("--loader-only", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(
        Pictures(args.size, args.work),
        batch_size=args.batch,
        num_workers=args.workers,
        pin_memory=args.pin,
    )
    network = build_network(args.width, args.depth).to(args.device)
    if args.channels_last:
        network = network.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    criterion = nn.CrossEntropyLoss()
    pace = Pace(args.device, args.seconds, args.batch)
    if args.loader_only:
        time_loader(loader, pace)
        return
    if args.resident:
        loader = repeat_batch(loader, args.device)
    for step, (pictures, labels) in enumerate(loader, 1):
        pictures = pictures.to(args.device, non_blocking=args.pin)
        labels = labels.to(args.device, non_blocking=args.pin)
        if args.channels_last:
            pictures = pictures.to(memory_format=torch.channels_last)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            loss = criterion(network(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
        if pace.finish_step(loss):
            break


if __name__ == "__main__":
    main()
