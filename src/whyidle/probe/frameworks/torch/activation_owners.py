"""Marks in a recording of allocations where modules run, and notes what their backward passes keep.

While ``watch_modules`` is open, each call of module ``N`` is a span ``whyidle::forward N``, and the
first tensor that the backward pass takes back of what it kept is a mark ``whyidle::unpack N``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .looks.batch_growth import BLOCK
from .looks.step_tape import find_tensors

FORWARD, UNPACK = "whyidle::forward ", "whyidle::unpack "
Kept = tuple[int, int, int]
"""address and bytes of a storage that the backward pass needs, and the module that keeps it"""


def address_of(tensor: Any) -> int:
    """The address of a tensor's storage; 0 where it has none, as on devices written in Python."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


def is_whole(tensor: Any) -> bool:
    """Whether a tensor is all that its storage holds, but for what rounding adds: no slice of a
    whole dataset."""
    with suppress(RuntimeError, NotImplementedError):
        own = tensor.numel() * tensor.element_size()
        return bool(tensor.untyped_storage().nbytes() <= max(2 * own, own + BLOCK))
    return True


class ModuleWatch:
    """Which modules run, and what they keep for their backward passes."""

    def __init__(self, torch: Any, modules: list[Any]) -> None:
        self._torch = torch
        self.numbers = {id(module): number for number, module in enumerate(modules)}
        self.kept: list[Kept] = []
        self.outputs: list[tuple[int, int]] = []
        """address of a result, and the module that returned it"""
        self.stack: list[tuple[int, Any, float]] = []
        self.seconds: dict[int, float] = {}
        """module -> seconds of its calls, those of modules inside it included"""
        self.ended = False
        """whether what is kept was noted only up to a call of ``torch.func``"""
        self._shapes: dict[tuple[tuple[int, ...], Any], int] = {}
        """shape and type of a saved tensor, or a result -> bytes of its storage"""
        self._seen: set[tuple[int, int]] = set()
        self._unpacked: set[int] = set()
        tensors = [t for m in modules for t in (*m.parameters(False), *m.buffers(False))]
        self._persistent = {address_of(tensor) for tensor in tensors}

    def enter(self, module: Any, _: Any) -> None:
        """A module is called."""
        number = self.numbers.get(id(module), -1)
        span = self._torch.autograd.profiler.record_function(f"{FORWARD}{number}")
        span.__enter__()
        self.stack.append((number, span, time.perf_counter()))

    def leave(self, module: Any, args: Any, result: Any) -> None:
        """Its call is over."""
        if not self.stack:
            return
        number, span, begin = self.stack.pop()
        self.seconds[number] = self.seconds.get(number, 0.0) + time.perf_counter() - begin
        for tensor in find_tensors(result):
            self.outputs.append((address_of(tensor), number))
            self._note_shape(tensor)
        span.__exit__(None, None, None)

    def pack(self, tensor: Any) -> Any:
        """Note a tensor that the backward pass will need."""
        owner = self.stack[-1][0] if self.stack else -1
        address = address_of(tensor)
        if address and address not in self._persistent and (address, owner) not in self._seen:
            self._seen.add((address, owner))
            self._note_shape(tensor)
            self.kept.append((address, tensor.untyped_storage().nbytes(), owner))
        return owner, tensor

    def _note_shape(self, tensor: Any) -> None:
        if address_of(tensor) and is_whole(tensor):
            self._shapes[tuple(tensor.shape), tensor.dtype] = tensor.untyped_storage().nbytes()

    def shapes_with(self, samples: int) -> list[tuple[tuple[int, ...], int]]:
        """Shape, sorted, and bytes of those tensors one of whose dimensions is a multiple of
        ``samples``, and of the buffers of bytes in which operators keep what they will need."""
        return [
            (tuple(sorted(shape)), size)
            for (shape, kind), size in self._shapes.items()
            if any(number and number % samples == 0 for number in shape)
            or (len(shape) == 1 and kind == self._torch.uint8)
        ]

    def keeps_rows_of(self, samples: int) -> bool:
        """Whether most of what is kept has the samples, or parts of them, as rows."""
        rows = sum(n for (shape, _), n in self._shapes.items() if shape and shape[0] % samples == 0)
        return rows > 0.9 * sum(self._shapes.values())

    def unpack(self, packed: Any) -> Any:
        """Give it back, and mark where a module's backward pass begins."""
        owner, tensor = packed
        if owner not in self._unpacked:
            self._unpacked.add(owner)
            with self._torch.autograd.profiler.record_function(f"{UNPACK}{owner}"):
                pass
        return tensor


@contextmanager
def watch_modules(torch: Any, modules: list[Any]) -> Iterator[ModuleWatch]:
    """Watch the calls of modules and what they keep."""
    from torch.nn.modules import module as home

    watch, autograd = ModuleWatch(torch, modules), torch._C._autograd
    before = home.register_module_forward_pre_hook(watch.enter)
    after = home.register_module_forward_hook(watch.leave, always_call=True)
    saving = torch.autograd.graph.saved_tensors_hooks(watch.pack, watch.unpack)
    disable = autograd._saved_tensors_hooks_disable

    def make_room(*args: Any, **kwargs: Any) -> Any:
        """``torch.func`` raises an error where such hooks are active: ours go."""
        if not watch.ended:
            watch.ended = True
            saving.__exit__()
        return disable(*args, **kwargs)

    saving.__enter__()
    autograd._saved_tensors_hooks_disable = make_room
    try:
        yield watch
    finally:
        autograd._saved_tensors_hooks_disable = disable
        if not watch.ended:
            saving.__exit__()
        before.remove()
        after.remove()
