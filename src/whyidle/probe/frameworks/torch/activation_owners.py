"""Marks in a recording of allocations where modules run, and notes what their backward passes keep.

While ``watch_modules`` is open, every call of a module is a span ``whyidle::forward N`` of the
profiler, and the first tensor that the backward pass takes back of what a module kept is a mark
``whyidle::unpack N``. ``N`` is the module's place in the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .step_tape import find_tensors

FORWARD, UNPACK = "whyidle::forward ", "whyidle::unpack "
Kept = tuple[int, int, int]
"""address and bytes of a storage that the backward pass needs, and the module that keeps it"""


def address_of(tensor: Any) -> int:
    """The address of a tensor's storage; 0 where it has none, as on devices written in Python."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


class ModuleWatch:
    """Which modules run, and what they keep for their backward passes."""

    def __init__(self, torch: Any, modules: list[Any]) -> None:
        self._torch = torch
        self.numbers = {id(module): number for number, module in enumerate(modules)}
        self.kept: list[Kept] = []
        self.outputs: list[tuple[int, int]] = []
        """address of a result, and the module that returned it"""
        self.stack: list[tuple[int, Any]] = []
        self._seen: set[tuple[int, int]] = set()
        self._unpacked: set[int] = set()
        tensors = [t for m in modules for t in (*m.parameters(False), *m.buffers(False))]
        self._persistent = {address_of(tensor) for tensor in tensors}

    def enter(self, module: Any, _: Any) -> None:
        """A module is called."""
        number = self.numbers.get(id(module), -1)
        span = self._torch.autograd.profiler.record_function(f"{FORWARD}{number}")
        span.__enter__()
        self.stack.append((number, span))

    def leave(self, module: Any, args: Any, result: Any) -> None:
        """Its call is over."""
        if not self.stack:
            return
        number, span = self.stack.pop()
        for tensor in find_tensors(result):
            self.outputs.append((address_of(tensor), number))
        span.__exit__(None, None, None)

    def pack(self, tensor: Any) -> Any:
        """Note a tensor that the backward pass will need."""
        owner = self.stack[-1][0] if self.stack else -1
        address = address_of(tensor)
        if address and address not in self._persistent and (address, owner) not in self._seen:
            self._seen.add((address, owner))
            self.kept.append((address, tensor.untyped_storage().nbytes(), owner))
        return owner, tensor

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

    watch = ModuleWatch(torch, modules)
    before = home.register_module_forward_pre_hook(watch.enter)
    after = home.register_module_forward_hook(watch.leave, always_call=True)
    try:
        with torch.autograd.graph.saved_tensors_hooks(watch.pack, watch.unpack):
            yield watch
    finally:
        before.remove()
        after.remove()
