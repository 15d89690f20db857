"""Small training jobs whose numbers can be compared bit for bit."""

from __future__ import annotations

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1)
    )


def train(net, steps=4, optimizer=None, after=lambda step: None):
    """The losses."""
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    beside = register_optimizer_step_post_hook(lambda *_: None)  # as the probe has them
    for step in range(steps):
        loss = net(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        after(step)
    beside.remove()
    return losses
