"""Trains many small experts on one input: one by one, or as one batched product."""

import argparse

import torch
from torch import nn

from pace import Pace


class Experts(nn.Module):
    """The sum of what many small two-layer networks make of the input."""

    def __init__(self, count, width, batched):
        super().__init__()
        self.first = nn.Parameter(torch.randn(count, width, width) / width**0.5)
        self.second = nn.Parameter(torch.randn(count, width, width) / width**0.5)
        self.batched = batched

    def forward(self, x):
        if self.batched:
            x = x.expand(len(self.first), *x.shape)
            return torch.bmm(torch.relu(torch.bmm(x, self.first)), self.second).sum(0)
        total = torch.zeros_like(x)
        for first, second in zip(self.first, self.second, strict=True):
            total = total + torch.relu(x @ first) @ second
        return total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--experts", type=int, default=128)
    parser.add_argument("--batched", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    network = Experts(args.experts, args.width, args.batched).to(args.device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    x = torch.randn(args.batch, args.width, device=args.device)
    pace = Pace(args.device, args.seconds, args.batch)
    finished = False
    while not finished:
        loss = (network(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        finished = pace.finish_step(loss)


if __name__ == "__main__":
    main()
