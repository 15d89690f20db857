"""Waiting for a module that the job imports by itself, or never."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class ModuleWaiter:
    """A finder that finds nothing itself: it lets the others find a module, and calls ``wake`` with
    it once the job has imported it; with None where that cannot be waited for."""

    def __init__(self, module: str, wake: Callable[[Any], None]) -> None:
        self.module = module
        self.wake = wake

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Have the module's loader call us afterwards."""
        if name != self.module:
            return None
        spec = None
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 if self in finders else 0 :]:
            find = getattr(finder, "find_spec", None)  # of several waiters each asks the next
            spec = find(name, path, target) if find else None
            if spec is not None:
                break
        loader = getattr(spec, "loader", None)
        if hasattr(loader, "exec_module") and hasattr(loader, "__dict__"):
            self._wrap_loader(loader)
        elif spec is not None:
            self.wake(None)  # it cannot be waited for
        return spec

    def _wrap_loader(self, loader: Any) -> None:
        original = loader.exec_module

        def exec_module(module: Any) -> None:
            loader.__dict__.pop("exec_module", None)
            original(module)
            self.wake(module)

        loader.exec_module = exec_module


def once_there(name: str, attribute: str, work: Callable[[Any], None]) -> Callable[[], None]:
    """Have ``work`` done with a module that has this attribute: now, or as soon as it is imported;
    what is returned gives the waiting up."""
    module = sys.modules.get(name)
    if hasattr(module, attribute):
        work(module)
        return lambda: None

    def leave() -> None:
        if waiter in sys.meta_path:
            sys.meta_path.remove(waiter)

    def wake(module: Any) -> None:
        leave()
        if hasattr(module, attribute):
            work(module)

    waiter = ModuleWaiter(name, wake)
    sys.meta_path.insert(0, waiter)
    return leave
