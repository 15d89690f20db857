"""Waits for the job to import a module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class ModuleWaiter:
    """A finder that delegates to the other finders and calls ``wake`` with a module once the job
    has imported it; with None if its loader cannot be hooked."""

    def __init__(self, module: str, wake: Callable[[Any], None]) -> None:
        self.module = module
        self.wake = wake

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Hook the loader of the module, so that it calls ``wake`` afterwards."""
        if name != self.module:
            return None
        spec = None
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 if self in finders else 0 :]:
            find = getattr(finder, "find_spec", None)  # each of several waiters asks the next
            spec = find(name, path, target) if find else None
            if spec is not None:
                break
        loader = getattr(spec, "loader", None)
        if hasattr(loader, "exec_module") and hasattr(loader, "__dict__"):
            self._wrap_loader(loader)
        elif spec is not None:
            self.wake(None)
        return spec

    def stop_waiting(self) -> None:
        """Stop. ``sys.meta_path`` becomes a new list, as a thread that imports now goes through the
        old one and must miss no finder."""
        if self in sys.meta_path:
            sys.meta_path = [finder for finder in sys.meta_path if finder is not self]

    def _wrap_loader(self, loader: Any) -> None:
        original = loader.exec_module

        def exec_module(module: Any) -> None:
            loader.__dict__.pop("exec_module", None)
            original(module)
            self.wake(module)

        loader.exec_module = exec_module


def call_after_import(name: str, attribute: str, work: Callable[[Any], None]) -> Callable[[], None]:
    """Call ``work`` with a module that has this attribute, now or once it is imported. Returns a
    function that stops waiting."""
    module = sys.modules.get(name)
    if hasattr(module, attribute):
        work(module)
        return lambda: None

    def wake(module: Any) -> None:
        waiter.stop_waiting()
        if hasattr(module, attribute):
            work(module)

    waiter = ModuleWaiter(name, wake)
    sys.meta_path.insert(0, waiter)
    return waiter.stop_waiting
