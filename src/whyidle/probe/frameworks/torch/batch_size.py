"""How many samples a batch has, by what a model is called with and by the loader."""

from __future__ import annotations

from typing import Any

from .looks.step_tape import find_tensors

NO_TENSOR = "the model is called with no tensor that has a dimension of samples"


def find_batch_size(args: Any, loader_size: int | None) -> tuple[int | None, str]:
    """The samples of a batch, or None and why they are not known.

    A list of tensors has one sample in each, as images for a detector have. Else the loader's batch
    size decides where a tensor has that many rows (or columns, as where time comes first), and the
    rows that all tensors share where none has. Where they disagree, as nodes and edges of graphs or
    packed tokens do, a batch cannot be scaled by its shapes.
    """
    lists = [len(a) for a in args if isinstance(a, (list, tuple)) and a and _is_list(a)]
    if lists:
        return lists[0], ""
    shapes = [tuple(tensor.shape) for tensor in find_tensors(args) if tensor.dim()]
    if not shapes:
        return None, NO_TENSOR
    rows = {shape[0] for shape in shapes}
    if loader_size is not None and any(loader_size in shape[:2] for shape in shapes):
        return loader_size, ""
    if len(rows) > 1:
        numbers = " and ".join(f"{number:,}" for number in sorted(rows)[:3])
        return (None, f"the model's inputs have {numbers} rows, so it is unclear what a sample is")
    size = rows.pop()
    if loader_size is not None and size > loader_size:
        return (
            None,
            f"the loader's batches have {loader_size:,} samples, the model's input {size:,} rows",
        )
    return size, ""


def _is_list(value: Any) -> bool:
    return all(hasattr(part, "untyped_storage") and part.dim() > 1 for part in value)
