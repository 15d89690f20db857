"""What a trial puts into a process of PyTorch: the witness's hooks, seeds and rounding noise."""

from __future__ import annotations

import functools
import json
import os
import random
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from ...core import containment
from ...core.events import Events
from ...trial import seeding, witness
from ...trial.sample_counter import SampleCounter
from . import trial_state


def install_trial_hooks(events: Events, awaited: Callable[[], bool]) -> None:
    """Watch this process, where ``WHYIDLE_TRIAL`` asks for it: a JSON object of ``steps``,
    ``seconds``, ``seed`` (what is added to every seed), ``sway`` (the seed of what its results are
    to be off by, if they are), ``eager`` (whether compiled code is to draw the random numbers
    that it would draw uncompiled), ``per_sample`` (what rungs tell), ``noise`` (whether
    gradients are compared from step to step) and ``profile`` (whether it goes on while ``awaited``
    says that operators are still to be recorded once)."""
    text = os.environ.get("WHYIDLE_TRIAL")
    if not text:
        return
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    folder = events.recorder.folder
    asked = json.loads(text)
    _seed_generators(int(asked.get("seed", 0)))
    found = witness.Witness(folder, asked, trial_state)
    if asked.get("profile"):
        found.waits = awaited
    if asked.get("sway"):
        from .rounding_noise import RoundingNoise

        found.sway = RoundingNoise(folder, asked["sway"])
        found.sway.install_hooks()
    if asked.get("eager"):
        containment.run_contained(folder, "random", _draw_eagerly)
    is_tracing = events.framework.is_tracing

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_tracing():
            found.note_optimizer_step(optimizer)

    register_optimizer_step_post_hook(after)
    events.add_listener(found)
    containment.run_contained(folder, "samples", lambda: count_samples(folder, found.drawn))
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        containment.run_contained(folder, "loss", lambda: found.note_losses(tensors))
        return original(tensors, *args, **kwargs)

    torch.autograd.backward = backward
    witness.install_witness(found)


def count_samples(folder: str, drawn: SampleCounter) -> None:
    """Have every iterator of a DataLoader tell what it hands out."""
    from torch.utils.data import dataloader

    Kind: Any = dataloader._BaseDataLoaderIter  # noqa: N806
    ask, hand_out, reset = Kind._next_index, Kind.__next__, Kind._reset

    def note(work: Any) -> None:
        containment.run_contained(folder, "samples", work)

    @functools.wraps(ask)
    def _next_index(self: Any) -> Any:
        index = ask(self)
        note(
            lambda: _batch_sizes(self).append(len(index) if isinstance(index, list | tuple) else 1)
        )
        return index

    @functools.wraps(hand_out)
    def __next__(self: Any) -> Any:  # noqa: N807
        data = hand_out(self)
        note(lambda: drawn.note_batch(id(self), _batch_sizes(self).popleft()))
        return data

    @functools.wraps(reset)
    def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(lambda: _batch_sizes(self).clear())
        return reset(self, *args, **kwargs)

    Kind._next_index, Kind.__next__, Kind._reset = _next_index, __next__, _reset


def _batch_sizes(iterator: Any) -> deque[int]:
    """Of the batches that it was asked for and has not handed out yet."""
    found: deque[int] | None = vars(iterator).get("_whyidle_sizes")
    if found is None:
        found = iterator._whyidle_sizes = deque()
    return found


def _draw_eagerly() -> None:
    from torch._inductor import config

    config.fallback_random = True


def _seed_generators(added: int) -> None:
    """What a script does not seed starts from the same numbers in every arm; ``added`` gives others
    to all that it does."""
    import torch

    numpy = sys.modules.get("numpy")
    sows = sys.modules.get(seeding.NAME)  # since before the job's first line, but for PyTorch
    if sows is not None:
        # all of PyTorch's generators start from one number anyway, unless they are told otherwise
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
