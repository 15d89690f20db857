"""Trains a small network on pictures from a far disk, as a first version of such a script often
looks: anomaly mode, switched on for a bug of last week, is still on, and every picture is fetched
when it is its turn. The disk is a wait of 10 ms for each picture, about what a network disk takes;
the pictures themselves are made up.

    python train.py
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FETCH_S = 0.010


class Pictures(Dataset):
    """2,000 pictures of ten kinds: stripes of different widths, and noise."""

    def __init__(self, count=2000, size=32):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(FETCH_S)  # the far disk
        made = torch.Generator().manual_seed(index)
        kind = index % 10
        stripes = torch.sin(torch.arange(self.size) * (kind + 1) * 0.3)
        noise = torch.randn(3, self.size, self.size, generator=made)
        return stripes.expand(3, self.size, self.size) + noise, kind


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", default="model.pt")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(True)
    loader = DataLoader(Pictures(), batch_size=16, shuffle=True)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}", flush=True)
        torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
