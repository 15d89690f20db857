"""Measures how much of a batch is padding, from a mask, lengths or the ends of rows.

Only tensors on the CPU are read, as arrays, so that no mode or hook of PyTorch is triggered. Checks
have a budget: the next one waits until this one took ``BUDGET`` of the time since. If the first
batches have no padding that can be recognized, checking ends.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ...core.events import Events
from ...core.recorder import clock_ns
from ...wire import PAD

cpu = time.thread_time_ns

MASK, LENGTHS, FRAMES, TOKENS = range(1, 5)
BUDGET = 0.001
"""share of the time that checks may take, in CPU time of the thread"""
EARLY_BUDGET, CREDIT_NS = 0.01, 10_000_000
"""the share until ``CREDIT_NS`` are spent, so that short runs can be judged too"""
LONGEST_REST_NS = 1_000_000_000
TRIES = 8
"""batches without a result after which checking ends"""
MOST_CELLS = 1 << 17
"""most elements of an array that are read"""
SHORTEST = 8
"""shortest row that counts as a sequence"""
MOST_ROWS = 4096
RARE = 0.01
"""largest share of real positions that may have the value of padding"""
OFTEN = 0.3
"""share of the rows that must end in a number that counts as padding"""
_PADS = re.compile(r"pad", re.I)
_MASK = re.compile(r"(^|_)mask$", re.I)
_LENGTHS = re.compile(r"len(gth)?s?$", re.I)

Found = tuple[int, int, int, int, int, int]
Named = list[tuple[str, Any]]


class PaddingCounter:
    """Measures the padding of the batches that one process takes."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.next = 0
        self.tries = TRIES
        self.credit = CREDIT_NS
        events.undo["padding"] = self.stop_counting

    def stop_counting(self) -> None:
        """Stop checking."""
        self.tries = 0

    def note_batch(self, data: Any) -> None:
        """Check a batch if the budget allows."""
        if self.tries and data is not None and clock_ns() >= self.next:
            self.events.run_contained("padding", self._count_padding, data)

    def _count_padding(self, data: Any) -> None:
        begin, cost = clock_ns(), cpu()
        row = padding_of_batch(data)
        if row is not None:
            self.tries = TRIES
            self.events.recorder.add_row("padding", PAD, (begin, *row))
        else:
            self.tries -= 1
        spent = cpu() - cost
        share = EARLY_BUDGET if self.credit > 0 else BUDGET
        self.credit -= spent
        self.next = begin + min(int(spent / share), LONGEST_REST_NS)


def padding_of_batch(data: Any) -> Found | None:
    """Return the fields of ``wire.PAD`` after the time; None if padding is not recognized."""
    if "numpy" not in sys.modules:
        return None  # importing it would take too long
    arrays = [
        (name, array)
        for name, part in _named_tensors(data)
        if (array := as_array(part)) is not None
    ]
    for find in (_by_mask, _by_lengths, _by_frames, _by_tokens):
        row = find(arrays)
        if row is not None:
            return row
    return None


def _named_tensors(data: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    if depth > 2:
        return
    if isinstance(data, Mapping):
        for key in list(data)[:32]:
            yield from _named_tensors(data[key], str(key), depth + 1)
    elif isinstance(data, (list, tuple)) and not (data and type(data[0]) is int):
        for part in data[:16]:
            yield from _named_tensors(part, name, depth + 1)
    else:
        yield name, data


def as_array(tensor: Any) -> Any:
    """Return a CPU tensor as an array on the same memory, or a short list of integers as it is. Not
    by ``Tensor.numpy``, after which PyTorch cannot resize the tensor."""
    torch = sys.modules["torch"]
    if isinstance(tensor, (list, tuple)):
        return tensor if len(tensor) <= MOST_ROWS and all(type(x) is int for x in tensor) else None
    if type(tensor) is not torch.Tensor:
        return None
    with torch._C.DisableTorchFunction():  # a mode of the job would see each call
        return _on_its_memory(tensor, torch)


def _on_its_memory(tensor: Any, torch: Any) -> Any:
    if tensor.device.type != "cpu" or tensor.requires_grad:
        return None
    if tensor.layout is not torch.strided or tensor.dtype is torch.bfloat16 or not tensor.numel():
        return None
    if tensor.dim() not in (1, 2, 3):
        return None
    try:
        return sys.modules["numpy"].from_dlpack(tensor)
    except (AttributeError, BufferError, RuntimeError, TypeError):  # no such dtype in this NumPy
        return None


def _array_shape(array: Any) -> tuple[int, ...]:
    return tuple(getattr(array, "shape", (len(array),)))


def _thin_rows(array: Any) -> Any:
    """Return every few rows, so that about ``MOST_CELLS`` elements are read at most."""
    return array[:: 1 + array.size // MOST_CELLS] if array.size > MOST_CELLS else array


def _by_mask(arrays: Named) -> Found | None:
    """Find a mask whose rows have one run of real positions and one of padding, on either side."""
    for name, array in arrays:
        shape = _array_shape(array)
        if len(shape) != 2 or shape[1] < SHORTEST or not _may_mask(name, array):
            continue
        some = _thin_rows(array)
        if some.dtype.kind == "f" or some.min() < 0 or some.max() > 1:
            continue
        real = some != 0
        if _PADS.search(name) and not real[:, 0].all():
            real = ~real
        if (real[:, 1:] != real[:, :-1]).sum(axis=1).max() > 1 or not real.any():
            continue  # a mask for another purpose
        return _count_positions(real.sum(axis=1), real.shape, 0, MASK)
    return None


def _may_mask(name: str, array: Any) -> bool:
    named = _MASK.search(name) or _PADS.search(name)
    return bool(named) or (not name and array.dtype.kind == "b")


def _by_lengths(arrays: Named) -> Found | None:
    """Find lengths next to sequences: by name, or because the largest is the length of the
    sequences and the shortest row is constant after its end."""
    for name, array in arrays:
        shape = _array_shape(array)
        if len(shape) != 1 or not 2 <= shape[0] <= MOST_ROWS:
            continue
        if getattr(getattr(array, "dtype", None), "kind", "i") not in "iu":
            continue
        lengths = [int(number) for number in array]
        low, high = min(lengths), max(lengths)
        for _, other in arrays:
            sides = _array_shape(other)
            if len(sides) < 2 or shape[0] not in sides[:2]:
                continue
            rows = other if sides[0] == shape[0] else other.swapaxes(0, 1)
            length = rows.shape[1]
            fits = high <= length if _LENGTHS.search(name) else high == length > low
            fits = fits and (
                bool(_LENGTHS.search(name)) or _is_constant(rows[lengths.index(low)][low:])
            )
            if fits and low >= 1 and length >= SHORTEST:
                return sum(lengths), shape[0] * length, shape[0] * high, 0, shape[0], LENGTHS
    return None


def _is_constant(rest: Any) -> bool:
    """Whether all values after a row's assumed end are equal."""
    return bool((rest == rest.flat[0]).all())


def _by_frames(arrays: Named) -> Found | None:
    """Find sequences of vectors that end in zero vectors."""
    for _, array in arrays:
        shape = _array_shape(array)
        if len(shape) != 3 or array.dtype.kind != "f":
            continue
        filled = (_thin_rows(array) != 0).any(axis=2)
        for rows in (filled, filled.T):
            row = _find_row_ends(rows, 0, FRAMES) if rows.shape[1] >= SHORTEST else None
            if row and row[0] < row[1]:
                return row
    return None


def _by_tokens(arrays: Named) -> Found | None:
    """Find sequences of numbers of which many end in the same number."""
    for _, array in arrays:
        shape = _array_shape(array)
        if len(shape) != 2 or array.dtype.kind not in "iu":
            continue
        found = [row for rows in (array, array.T) if (row := _by_last(_thin_rows(rows)))]
        if found:
            return min(found)  # the side on which most is padding
    return None


def _by_last(rows: Any) -> Found | None:
    """Find rows that end in a common number. Negative numbers are labels to ignore."""
    if rows.shape[0] < 2 or rows.shape[1] < SHORTEST:
        return None
    token, times = Counter(rows[:, -1].tolist()).most_common(1)[0]
    if token < 0:
        return None
    padding = token if times >= OFTEN * len(rows) else -1
    return _find_row_ends(rows != padding, token, TOKENS)


def _find_row_ends(real: Any, value: int, kind: int) -> Found:
    """Count rows that are real up to some position and padding from there on."""
    whole = real.shape[1]
    lengths = whole - real[:, ::-1].argmax(axis=1)
    total = int(lengths.sum())
    if not real.any(axis=1).all() or total - int(real.sum()) > RARE * total:
        lengths = lengths * 0 + whole  # neither empty rows nor frequent zeros are padding
    return _count_positions(lengths, real.shape, value, kind)


def _count_positions(lengths: Any, shape: tuple[int, ...], value: int, kind: int) -> Found:
    rows, length = int(shape[0]), int(shape[1])
    total, longest = int(lengths.sum()), int(lengths.max())
    return total, rows * length, rows * longest, value, rows, kind
