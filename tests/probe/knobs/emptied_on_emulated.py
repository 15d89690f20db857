"""A job that empties the cache of the emulated device in every step; says how often that was let
through, as the device's own module and as PyTorch's of whichever accelerator there is."""

import json
import sys
import tempfile

import torch

from emulator import device as emulated
from whyidle.probe import knobs

EVERY, STEPS = 8, 24


def steps():
    """Steps of training on the device."""
    net = torch.nn.Linear(16, 1).to("emulated")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    for _ in range(STEPS):
        net(torch.rand(4, 16, device="emulated")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def emptied(owner):
    """With the knob, and once it is turned back."""
    calls = []
    original = owner.empty_cache
    owner.empty_cache = lambda: calls.append(1)
    with tempfile.TemporaryDirectory() as folder:
        session = knobs.KnobSession(
            folder, {"edits": {"memory.empty_cache_every": EVERY}, "was": {}}
        )
        session.apply_knobs()
        for _ in steps():
            owner.empty_cache()
        through = len(calls)
        session.undo_changes()
    owner.empty_cache()
    owner.empty_cache = original
    return {
        "through": through,
        "after": len(calls) - through,
        "applied": session.applied,
        "steps": STEPS,
    }


def main():
    emulated.configure(peak_flops=2e9)
    found = {owner.__name__: emptied(owner) for owner in (torch.emulated, torch.accelerator)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
