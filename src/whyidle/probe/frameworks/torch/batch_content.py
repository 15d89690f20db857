"""What a batch holds, and what its samples are before they are collated. Read for few batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

MOST_DEEP, MOST_PARTS = 3, 64
"""depth and number of parts to which a batch is searched"""
TEXT = 20
"""characters from which a string with blanks is a text rather than a name"""
CHANNELS = (1, 3, 4)


def describe_batch(data: Any) -> dict[str, Any]:
    """Return the number of a batch's tensors, their bytes, and these by type of element."""
    sizes: Counter[str] = Counter()
    tensors = 0
    for part in _parts_of(data):
        if hasattr(part, "untyped_storage"):
            tensors += 1
            sizes[str(part.dtype).rpartition(".")[2]] += part.nbytes
    return {"tensors": tensors, "bytes": sizes.total(), "types": dict(sizes)}


def count_samples(data: Any) -> int:
    """Return the samples of a batch that the dataset itself has made: the length of all its parts,
    if it has several of one length; else 1."""
    lengths = [len(part) for part in _parts_of(data) if getattr(part, "shape", ())]
    return lengths[0] if len(lengths) > 1 and len(set(lengths)) == 1 else 1


def describe_sample(sample: Any) -> str:
    """Return what a sample of a dataset is: ``text``, ``images``, or empty where neither shows."""
    return next((kind for part in _parts_of(sample) if (kind := _kind_of(part))), "")


def _kind_of(part: Any) -> str:
    if isinstance(part, str):
        return "text" if len(part) >= TEXT and " " in part else ""
    if type(part).__module__.startswith("PIL."):
        return "images"
    shape = tuple(getattr(part, "shape", ()))
    bytewise = str(getattr(part, "dtype", "")).endswith("uint8")
    flat = len(shape) == 3 and (shape[0] in CHANNELS or shape[-1] in CHANNELS)
    return "images" if bytewise and flat else ""


def _parts_of(data: Any, left: int = MOST_DEEP) -> Iterator[Any]:
    """The parts of a batch within lists, tuples and dictionaries."""
    if isinstance(data, dict):
        data = list(data.values())
    if not isinstance(data, (list, tuple)):
        yield data
    elif left:
        for part in data[:MOST_PARTS]:
            yield from _parts_of(part, left - 1)
