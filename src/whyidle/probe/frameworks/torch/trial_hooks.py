"""Installs a trial in a process of PyTorch: the witness's hooks, seeds and rounding noise."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from ...core import fault_containment
from ...core.events import Events
from ...trial import seeding, trial_recorder
from . import trial_state


def install_trial_hooks(events: Events, awaited: Callable[[], bool]) -> None:
    """Watch this process as ``WHYIDLE_TRIAL`` requests: a JSON object with

    * ``steps`` and ``seconds``: how long to run,
    * ``seed``: added to every seed,
    * ``sway``: the seed of the rounding noise, if any,
    * ``eager``: compiled code draws the random numbers that it would draw uncompiled,
    * ``profile``: continue while ``awaited`` says that operators are still to be recorded.
    """
    text = os.environ.get("WHYIDLE_TRIAL")
    if not text:
        return
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    folder = events.recorder.folder
    request = json.loads(text)
    _seed_generators(int(request.get("seed", 0)))
    observer = trial_recorder.TrialRecorder(folder, request, trial_state)
    if request.get("profile"):
        observer.waits = awaited
    if request.get("sway"):
        from .rounding_noise import RoundingNoise

        observer.sway = RoundingNoise(folder, request["sway"])
        observer.sway.install_hooks()
    if request.get("eager"):
        fault_containment.run_contained(folder, "random", _draw_eagerly)
    is_tracing = events.framework.is_tracing

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_tracing():
            observer.note_optimizer_step(optimizer)

    register_optimizer_step_post_hook(after_step)
    events.add_listener(observer)
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        fault_containment.run_contained(folder, "loss", lambda: observer.note_losses(tensors))
        return original(tensors, *args, **kwargs)

    torch.autograd.backward = backward
    trial_recorder.install_witness(observer)


def _draw_eagerly() -> None:
    from torch._inductor import config

    config.fallback_random = True


def _seed_generators(added: int) -> None:
    """Seed generators that the script does not seed, equally in every arm; add ``added`` to the
    script's own seeds."""
    import torch

    numpy = sys.modules.get("numpy")
    sows = sys.modules.get(seeding.NAME)  # loaded before the job's first line
    if sows is not None:
        # PyTorch's generators have a fixed default seed, so only ``torch.seed`` is replaced
        seed = sows.make_seed(torch.manual_seed)
        torch.seed = torch.random.seed = seed or torch.seed
    else:
        random.seed(added)
        if numpy is not None:
            numpy.random.seed(added)
    torch.manual_seed(added)
    if added:
        torch.manual_seed = _shift_seed(torch.manual_seed, added)
        random.seed = _shift_seed(random.seed, added)
        if numpy is not None:
            numpy.random.seed = _shift_seed(numpy.random.seed, added)


def _shift_seed(original: Callable[..., Any], added: int) -> Callable[..., Any]:
    def seed(value: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(value + added if isinstance(value, int) else value, *args, **kwargs)

    return seed
