"""Micro-batches joined: fewer and larger ones, and as many samples to a step as before.

Done where a framework makes the micro-batches from its options, as Hugging Face's ``Trainer`` does;
a loop of the script's own is left alone. What its subclass does by itself with batches or losses is
not known here, so that such a one is left as well, and so are means over labels of which
micro-batches hold unequal numbers, unless the model is told how many a step has.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

from ..importing import once_there
from . import DeclinedError, Hand

KNOB = "loop.microbatch_times"
HOME = "transformers.trainer"
OWN = (
    "get_train_dataloader",
    "_get_dataloader",
    "_get_train_sampler",
    "get_batch_samples",
    "training_step",
    "_inner_training_loop",
)
"""methods that batches and micro-batches come from"""
OF_TOKENS = ("LanguageModeling", "TokenClassification", "Seq2Seq", "WholeWord", "Completion")
"""in the names of collators whose labels are of tokens, some of which do not count"""


class Joined:
    """The options of one process's trainers, each of which is changed once."""

    def __init__(self, hand: Hand, times: int) -> None:
        self.hand, self.times = hand, times
        self.known: list[weakref.ref[Any]] = []

    def join(self, trainer: Any, bound: dict[str, Any]) -> None:
        """Change the options that a trainer is about to be made with; several may share them."""
        args = bound.get("args")
        self.known = [one for one in self.known if one() is not None]
        if args is None or any(one() is args for one in self.known):
            return
        if why := _against(trainer, bound, self.times):
            self.hand.decline([KNOB], why)
            return
        self.known.append(weakref.ref(args))
        self.hand.multiplies(KNOB, args.per_device_train_batch_size)
        args.per_device_train_batch_size *= self.times
        args.gradient_accumulation_steps //= self.times
        self.hand.took(KNOB)


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have trainers made with joined micro-batches."""
    times = float(edits[KNOB])
    if times != int(times) or times < 1:
        raise DeclinedError(f"micro-batches are joined by whole numbers, not by {times:g}")
    joined = Joined(hand, int(times))
    hand.waits([KNOB], "the loop over micro-batches is the script's own")

    def adopt(module: Any) -> None:
        hand.contained([KNOB], hand.replace, module.Trainer, "__init__", make)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(self, *args, **kwargs).arguments
            except TypeError:  # the script's own mistake, which the trainer tells better
                bound = {}
            hand.contained([KNOB], joined.join, self, bound)
            original(self, *args, **kwargs)

        return init

    hand.undo.append(once_there(HOME, "Trainer", adopt))


def _against(trainer: Any, bound: dict[str, Any], times: int) -> str:
    """Why these micro-batches cannot be joined; empty where they can."""
    args, kind = bound["args"], type(trainer)
    steps = args.gradient_accumulation_steps
    if steps % times or steps < times:
        return f"{steps} micro-batch(es) to a step cannot be joined by {times}"
    for name in OWN:
        method = getattr(kind, name, None)
        if method is not None and not method.__module__.startswith("transformers."):
            return f"{kind.__name__}.{name} is not the framework's own"
    if getattr(args, "auto_find_batch_size", False) or getattr(args, "deepspeed", None):
        return "the size of batches is found or set elsewhere"
    if getattr(getattr(args, "accelerator_config", None), "split_batches", False):
        return "its batches are split among the ranks"
    return _data(bound, times) or _model(bound)


def _data(bound: dict[str, Any], times: int) -> str:
    from torch.utils.data import IterableDataset

    args, data = bound["args"], bound.get("train_dataset")
    if data is None or isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        return "it is trained on a stream, or on nothing"
    each = args.per_device_train_batch_size * max(int(getattr(args, "world_size", 1)), 1)
    if args.dataloader_drop_last and len(data) % (each * times):
        return "larger micro-batches would drop more samples at the end of an epoch"
    return ""


def _model(bound: dict[str, Any]) -> str:
    from torch.nn.modules.batchnorm import _BatchNorm

    model: Any = bound.get("model")
    collator = type(bound.get("data_collator")).__name__
    if not hasattr(model, "modules"):
        return "the model is made later"
    if any(isinstance(one, _BatchNorm) for one in model.modules()):
        return "batch normalisation would see more samples at once"
    told = getattr(model, "accepts_loss_kwargs", None)
    if told is None:
        named = inspect.signature(model.forward).parameters.values()
        told = any(one.kind == one.VAR_KEYWORD for one in named)
    if not told and any(word in collator for word in OF_TOKENS):
        return "its loss is a mean over labels, of which micro-batches have unequal numbers"
    return ""
