"""Fits a multi-layer perceptron to rows of a table.

This is the healthy job; defects are planted by replacing its lines, see twins.py.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from pace import Pace


class Rows(Dataset):
    """Rows in host memory, read a whole batch at a time."""

    def __init__(self, batch, columns):
        self.rows = torch.randn(2, batch, columns)
        self.targets = torch.randn(2, batch, 1)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.rows[index % 2], self.targets[index % 2]


def build_network(columns, width, depth):
    """Linear layers, all but the first of equal width."""
    layers = [nn.Linear(columns, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def compute_loss(network, rows, targets):
    """The mean squared error."""
    return nn.functional.mse_loss(network(rows).float(), targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    data = Rows(args.batch, args.columns)
    loader = DataLoader(data, batch_size=None, num_workers=2, prefetch_factor=4, pin_memory=True)
    network = build_network(args.columns, args.width, args.depth).to(args.device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    total = 0.0
    pace = Pace(args.device, args.seconds, args.batch)
    for step, (rows, targets) in enumerate(loader, 1):
        rows = rows.to(args.device, non_blocking=True)
        targets = targets.to(args.device, non_blocking=True)
        with torch.autocast(args.device, torch.bfloat16):
            loss = compute_loss(network, rows, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            total += loss.item()
        if pace.finish_step(loss):
            break
    print(f"sum of the losses read: {total:.4f}")


if __name__ == "__main__":
    main()
