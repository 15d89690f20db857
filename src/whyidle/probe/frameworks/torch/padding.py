"""How much of a batch is padding: counted in some, from a mask, lengths or what they end in.

Only tensors of the CPU are looked at, as arrays, so that no mode or hook of PyTorch sees it. Looks
are bought from a budget: the next one waits until this one was ``BUDGET`` of the time since. Where
the first batches hold nothing of the kind, nobody looks again.
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
"""share of the time that looks may take, in CPU of the thread"""
EARLY_BUDGET, CREDIT_NS = 0.01, 10_000_000
"""the same until so much has been spent, so that short runs are judged, too"""
LONGEST_REST_NS = 1_000_000_000
TRIES = 8
"""batches without anything to count, after which nobody looks again"""
MOST_CELLS = 1 << 17
"""of an array, at most, are read"""
SHORTEST = 8
"""shorter rows are no sequences"""
MOST_ROWS = 4096
RARE = 0.01
"""share of the real positions that may look like padding; what is frequent there is none"""
OFTEN = 0.3
"""share of the rows that must end in one number before it may be padding"""
_PADS = re.compile(r"pad", re.I)
_MASK = re.compile(r"(^|_)mask$", re.I)
_LENGTHS = re.compile(r"len(gth)?s?$", re.I)

Found = tuple[int, int, int, int, int, int]
Named = list[tuple[str, Any]]


class PaddingCounter:
    """Looks at the batches that one process takes."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.next = 0
        self.tries = TRIES
        self.credit = CREDIT_NS
        self.found = False
        """whether the batches told it"""
        events.undo["padding"] = self.stop_counting

    def stop_counting(self) -> None:
        """Never look again."""
        self.tries = 0

    def note_batch(self, data: Any) -> None:
        """A batch is there."""
        if self.tries and data is not None and clock_ns() >= self.next:
            self.events.run_contained("padding", self._count_padding, data)

    def _count_padding(self, data: Any) -> None:
        begin, cost = clock_ns(), cpu()
        found = of_batch(data)
        if found is not None:
            self.tries, self.found = TRIES, True
            self.events.recorder.add_row("padding", PAD, (begin, *found))
        else:
            self.tries -= 1
        spent = cpu() - cost
        share = EARLY_BUDGET if self.credit > 0 else BUDGET
        self.credit -= spent
        self.next = begin + min(int(spent / share), LONGEST_REST_NS)


def of_batch(data: Any) -> Found | None:
    """Real positions, all, all if padded to the longest row, what padding is made of, rows, how it
    was told; None where nothing tells."""
    if "numpy" not in sys.modules:
        return None  # importing it would be felt
    arrays = [
        (name, array) for name, one in _named_tensors(data) if (array := as_array(one)) is not None
    ]
    for tell in (_by_mask, _by_lengths, _by_frames, by_tokens):
        found = tell(arrays)
        if found is not None:
            return found
    return None


def _named_tensors(data: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    if depth > 2:
        return
    if isinstance(data, Mapping):
        for key in list(data)[:32]:
            yield from _named_tensors(data[key], str(key), depth + 1)
    elif isinstance(data, (list, tuple)) and not (data and type(data[0]) is int):
        for one in data[:16]:
            yield from _named_tensors(one, name, depth + 1)
    else:
        yield name, data


def as_array(one: Any) -> Any:
    """A tensor of the CPU as an array on the same memory, or a short list of integers as it is.
    Not by ``Tensor.numpy``: what has been an array so cannot be resized by the job any more."""
    torch = sys.modules["torch"]
    if isinstance(one, (list, tuple)):
        return one if len(one) <= MOST_ROWS and all(type(x) is int for x in one) else None
    if type(one) is not torch.Tensor:
        return None
    with torch._C.DisableTorchFunction():  # a mode of the job's would see all that is asked of it
        return _on_its_memory(one, torch)


def _on_its_memory(one: Any, torch: Any) -> Any:
    if one.device.type != "cpu" or one.requires_grad:
        return None
    if one.layout is not torch.strided or one.dtype is torch.bfloat16 or not one.numel():
        return None
    if one.dim() not in (1, 2, 3):
        return None
    try:
        return sys.modules["numpy"].from_dlpack(one)
    except (AttributeError, BufferError, RuntimeError, TypeError):  # this NumPy has no such type
        return None


def _array_shape(array: Any) -> tuple[int, ...]:
    return tuple(getattr(array, "shape", (len(array),)))


def thin_rows(array: Any) -> Any:
    """Every few rows, so that not more than ``MOST_CELLS`` are read."""
    return array[:: 1 + array.size // MOST_CELLS] if array.size > MOST_CELLS else array


def _by_mask(arrays: Named) -> Found | None:
    """A mask whose rows are one run of real positions and one of padding, on either side."""
    for name, array in arrays:
        shape = _array_shape(array)
        if len(shape) != 2 or shape[1] < SHORTEST or not _may_mask(name, array):
            continue
        some = thin_rows(array)
        if some.dtype.kind == "f" or some.min() < 0 or some.max() > 1:
            continue
        real = some != 0
        if _PADS.search(name) and not real[:, 0].all():
            real = ~real
        if (real[:, 1:] != real[:, :-1]).sum(axis=1).max() > 1 or not real.any():
            continue  # masks something else
        return count_positions(real.sum(axis=1), real.shape, 0, MASK)
    return None


def _may_mask(name: str, array: Any) -> bool:
    named = _MASK.search(name) or _PADS.search(name)
    return bool(named) or (not name and array.dtype.kind == "b")


def _by_lengths(arrays: Named) -> Found | None:
    """Lengths beside sequences: named so, or one of them the sequences' own length, and nothing
    behind the shortest."""
    for name, array in arrays:
        shape = _array_shape(array)
        if len(shape) != 1 or not 2 <= shape[0] <= MOST_ROWS:
            continue
        if getattr(getattr(array, "dtype", None), "kind", "i") not in "iu":
            continue
        each = [int(one) for one in array]
        low, high = min(each), max(each)
        for _, other in arrays:
            sides = _array_shape(other)
            if len(sides) < 2 or shape[0] not in sides[:2]:
                continue
            rows = other if sides[0] == shape[0] else other.swapaxes(0, 1)
            length = rows.shape[1]
            fits = high <= length if _LENGTHS.search(name) else high == length > low
            fits = fits and (
                bool(_LENGTHS.search(name)) or _is_constant(rows[each.index(low)][low:])
            )
            if fits and low >= 1 and length >= SHORTEST:
                return sum(each), shape[0] * length, shape[0] * high, 0, shape[0], LENGTHS
    return None


def _is_constant(rest: Any) -> bool:
    """Whether what lies behind a row's supposed end is one value."""
    return bool((rest == rest.flat[0]).all())


def _by_frames(arrays: Named) -> Found | None:
    """Sequences of vectors that end in vectors of zeros."""
    for _, array in arrays:
        shape = _array_shape(array)
        if len(shape) != 3 or array.dtype.kind != "f":
            continue
        filled = (thin_rows(array) != 0).any(axis=2)
        for rows in (filled, filled.T):
            found = _find_row_ends(rows, 0, FRAMES) if rows.shape[1] >= SHORTEST else None
            if found and found[0] < found[1]:
                return found
    return None


def by_tokens(arrays: Named) -> Found | None:
    """Sequences of numbers most of which end in the same one."""
    for _, array in arrays:
        shape = _array_shape(array)
        if len(shape) != 2 or array.dtype.kind not in "iu":
            continue
        each = [found for rows in (array, array.T) if (found := _by_last(thin_rows(rows)))]
        if each:
            return min(each)  # the side on which most is padding
    return None


def _by_last(rows: Any) -> Found | None:
    """Rows that end in a number that many rows end in; labels to be left out are negative."""
    if rows.shape[0] < 2 or rows.shape[1] < SHORTEST:
        return None
    token, times = Counter(rows[:, -1].tolist()).most_common(1)[0]
    if token < 0:
        return None
    padding = token if times >= OFTEN * len(rows) else -1
    return _find_row_ends(rows != padding, token, TOKENS)


def _find_row_ends(real: Any, value: int, kind: int) -> Found:
    """Rows that are real up to some position, and padding from there on."""
    whole = real.shape[1]
    lengths = whole - real[:, ::-1].argmax(axis=1)
    total = int(lengths.sum())
    if not real.any(axis=1).all() or total - int(real.sum()) > RARE * total:
        lengths = lengths * 0 + whole  # empty rows are no sequences, frequent zeros no padding
    return count_positions(lengths, real.shape, value, kind)


def count_positions(lengths: Any, shape: tuple[int, ...], value: int, kind: int) -> Found:
    """What rows of so many real positions come to."""
    rows, length = int(shape[0]), int(shape[1])
    total, longest = int(lengths.sum()), int(lengths.max())
    return total, rows * length, rows * longest, value, rows, kind
