"""Trains a small network on the emulated device; reads its loss in every so many steps."""

import sys
import time

import torch
from torch import nn

import emulator.device

every, seconds = int(sys.argv[1]), float(sys.argv[2])
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [part for _ in range(3) for part in (nn.Linear(128, 128), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(128, 16)).to("emulated")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
batches = [
    (torch.randn(32, 128).to("emulated"), torch.randint(16, (32,)).to("emulated")) for _ in range(8)
]
history = []


def smoothed(values):
    total = 0.0
    for number in range(80_000):
        total += values[number % len(values)] * 0.5
    return total


step, end = 0, time.monotonic() + seconds
while time.monotonic() < end:
    inputs, labels = batches[step % 8]
    with torch.autocast("emulated", dtype=torch.bfloat16):
        loss = criterion(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % every == 0:
        history.append(loss.item())
    smoothed(history)
    step += 1
print(history[0])
