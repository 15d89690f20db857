"""What an optimizer's update takes within a training step on one CPU thread, by its implementation.

    python bench/optimizer_updates.py [Adam AdamW Adagrad SGD-momentum SGD]

For each network (number of tensors and elements): CPU time of ``optimizer.step()`` as a loop, with
``foreach`` and fused, with one and with many parameter groups, and how much faster the whole step
is with a fused update. CPU time, because it depends little on other programs. The constants of
``whyidle/causes/host/_cpu_jobs.py`` are read off this table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import thread_time

import torch
from torch import nn

NORMALISED, PLAIN = (64, 256), ((16, 32), (256, 512), (512, 1024))
"""widths of 24 and 12 layers with normalisation, and sizes of perceptrons with two layers"""
HOW = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
ROUNDS, STEPS, WARM = 6, 8, 6


def make_networks() -> dict[str, tuple[nn.Sequential, int]]:
    """Networks by their size, with the width of their input."""
    networks = [
        (nn.Sequential(*[m for _ in range(1536 // width)
                         for m in (nn.Linear(width, width), nn.LayerNorm(width))]), width)
        for width in (64, 256)
    ] + [
        (nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 10)), width)
        for width, hidden in PLAIN
    ]  # fmt: skip
    sizes = [[p.numel() for p in network.parameters()] for network, _ in networks]
    return {
        f"{len(size)} tensors, {sum(size):,} elements": network
        for size, network in zip(sizes, networks, strict=True)
    }


def make_step(
    name: str, how: str, groups: bool, net: nn.Sequential, width: int
) -> Callable[[], float]:
    """A training step that returns the CPU time of its update, s."""
    own = [{"params": [p]} for p in net.parameters()] if groups else net.parameters()
    kind, momentum = name.split("-", maxsplit=1)[0], {"momentum": 0.9} if "-" in name else {}
    optimizer = getattr(torch.optim, kind)(own, lr=1e-3, **HOW[how], **momentum)

    def step() -> float:
        loss = net(torch.randn(32, width)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        begin = thread_time()
        optimizer.step()
        return thread_time() - begin

    return step


def measure(steps: dict[str, Callable[[], float]]) -> dict[str, tuple[float, float]]:
    """Median CPU time of the update and of the step of each, s, in alternating rounds."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for number in range(ROUNDS + 1):
        for name, step in steps.items():
            begin = thread_time()
            updates = [step() for _ in range(STEPS)]
            if number:  # the first round warms up
                times[name].append((median(updates), (thread_time() - begin) / STEPS))
    return {
        name: (median(u for u, _ in each), median(s for _, s in each))
        for name, each in times.items()
    }


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    for name in sys.argv[1:] or ["Adam", "AdamW", "Adagrad", "SGD-momentum", "SGD"]:
        for size, (net, width) in make_networks().items():
            for groups in (False, True):
                steps = {how: make_step(name, how, groups, net, width) for how in HOW}
                found = measure(steps)
                update = "  ".join(f"{how} {u * 1e6:7.0f} us" for how, (u, _) in found.items())
                gain = "  ".join(f"{found[how][1] / found['fused'][1]:.2f}" for how in HOW)
                label = "a group each" if groups else "one group"
                print(f"{name:13}{size:30}{label:13}{update}  step / fused {gain}", flush=True)


if __name__ == "__main__":
    main()
