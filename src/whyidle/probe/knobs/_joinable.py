"""Which micro-batches of Hugging Face's ``Trainer`` can be joined, and why others cannot."""

from __future__ import annotations

import inspect
from typing import Any

from ._counting import against

Sizes = tuple[int, int]
"""samples in a micro-batch, and micro-batches in a step"""
OWN = (
    "get_train_dataloader",
    "_get_dataloader",
    "_get_train_sampler",
    "get_batch_samples",
    "training_step",
    "compute_loss",
    "_prepare_inputs",
    "_inner_training_loop",
)
"""methods that batches, micro-batches and their losses come from"""


def why_not(kind: type[Any], bound: dict[str, Any], sizes: Sizes, times: int) -> str:
    """Why these micro-batches cannot be joined; empty where they can."""
    from torch.utils.data import IterableDataset

    args, steps = bound["args"], sizes[1]
    if steps % times or steps < times:
        return f"{steps} micro-batch(es) to a step cannot be joined by {times}"
    for name in OWN:
        method = getattr(kind, name, None)
        if method is not None and not method.__module__.startswith("transformers."):
            return f"{kind.__name__}.{name} is not the framework's own"
    for one in bound.get("callbacks") or ():
        method = getattr(one, "on_substep_end", None)
        if method is not None and not method.__module__.startswith("transformers."):
            return "a callback of the script's own is called after every micro-batch"
    if getattr(args, "auto_find_batch_size", False) or getattr(args, "deepspeed", None):
        return "the size of batches is found or set elsewhere"
    if getattr(getattr(args, "accelerator_config", None), "split_batches", False):
        return "its batches are split among the ranks"
    if _takes_up(kind) and str(getattr(args.save_strategy, "value", args.save_strategy)) != "no":
        return "with this release a checkpoint sets the size of batches of whoever resumes from it"
    data = bound.get("train_dataset")
    if data is None or isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        return "it is trained on a stream, or on nothing"
    return _model(bound) or _rest(kind, bound, sizes[0] * times)


def _takes_up(kind: type[Any]) -> bool:
    """Whether a trainer has the size of its batches from a checkpoint, and not how many make a
    step, as releases before 5.2 do."""
    return "if state.train_batch_size is not None:" in inspect.getsource(kind.train)


def _rest(kind: type, bound: dict[str, Any], size: int) -> str:
    """What the end of an epoch does that is no multiple of the larger micro-batches."""
    args = bound["args"]
    ranks = max(int(getattr(args, "world_size", 1)), 1)
    each = size * ranks * max(int(getattr(args, "n_gpu", 1)), 1)
    whole = len(bound["train_dataset"]) % each == 0
    if not whole and args.dataloader_drop_last:
        return "larger micro-batches would drop more samples at the end of an epoch"
    if not whole and ranks > 1:
        return "larger micro-batches would repeat other samples at the end of an epoch"
    return against(kind, bound, whole)


def _model(bound: dict[str, Any]) -> str:
    from torch.nn.modules.batchnorm import _BatchNorm

    model: Any = bound.get("model")
    if not hasattr(model, "modules"):
        return "the model is made later"
    if any(isinstance(one, _BatchNorm) for one in model.modules()):
        return "batch normalisation would see more samples at once"
    return ""
