"""Imported by a job before anything else: writes down what its parameters are after each step."""

import atexit
import json
import os
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

SEEN: list[float] = []


def look(optimizer: torch.optim.Optimizer, *_: object) -> None:
    """One number of all parameters, in an order that is always the same."""
    parts = [part for group in optimizer.param_groups for part in group["params"]]
    SEEN.append(sum(part.detach().cpu().double().abs().sum().item() for part in parts))


def tell() -> None:
    """One process of several tells; the others have the same parameters."""
    if os.environ.get("RANK", "0") == "0":
        Path("witness.json").write_text(json.dumps(SEEN), encoding="utf-8")


register_optimizer_step_post_hook(look)
atexit.register(tell)
