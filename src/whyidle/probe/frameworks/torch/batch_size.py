"""How many samples a batch has, by what a model is called with and by the loader."""

from __future__ import annotations

import re
import sys
from typing import Any

from .looks.step_tape import find_tensors

NO_TENSOR = "the model is called with no tensor that has a dimension of samples"
SAID = re.compile(r"(?:^|[ .])-*(?:train[-_]?)?batch[-_]?size[ =](\d+)", re.IGNORECASE)


def find_batch_size(
    args: Any, loader_size: int | None, *, time_first: bool = False
) -> tuple[int | None, str]:
    """The samples of a batch, or None and why they are not known.

    A list of tensors (no state beside an input) has one sample in each. Else the loader's batch
    size, or that of the script's command, decides where a tensor has that many rows or columns, or
    the rows that all tensors share. Those of graphs and packed tokens disagree: nothing is known.
    """
    if lists := find_lists(args):
        return len(lists[0]), ""
    shapes = [tuple(tensor.shape) for tensor in find_tensors(args) if tensor.dim()]
    if not shapes:
        return None, NO_TENSOR
    said = SAID.search(" ".join(sys.argv[1:]))
    for known in (loader_size, said and int(said[1])):
        if known and any(known in shape[:2] for shape in shapes):
            return known, ""
    rows = sorted({shape[0] for shape in shapes})
    own = f"{rows[0]:,} rows"
    if len(rows) > 1:
        numbers = " and ".join(f"{number:,}" for number in rows[:3])
        why = f"the model's inputs have {numbers} rows, so it is unclear what a sample is"
    elif loader_size is not None and rows[0] > loader_size:
        why = f"the loader's batches have {loader_size:,} samples, the model's input {own}"
    elif time_first:
        why = f"the {own} of the model's input may be of time, which its layers take first"
    else:
        return rows[0], ""
    return None, why


def find_lists(args: Any) -> list[Any]:
    """The lists with a sample in each tensor; none where a tensor is beside them."""
    lists = [a for a in args if isinstance(a, (list, tuple)) and a]
    if any(hasattr(value, "untyped_storage") for value in args):
        return []
    return [a for a in lists if all(hasattr(p, "untyped_storage") and p.dim() > 1 for p in a)]
