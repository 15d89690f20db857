"""Wraps functions whose native code opens files by name.

Each is wrapped once its module has been imported, and is called with the path in the mirror.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from .diversion import Diversion

Use = Literal["read", "write", "keep", "mode"]
"""what the function does with the file: reads it, overwrites it, changes it, or as ``mode`` says"""


class Argument(NamedTuple):
    """Where a function takes a path, and what it does with the file."""

    function: str
    position: int
    keyword: str
    use: Use


KNOWN = {
    "torch": (Argument("save", 1, "f", "write"), Argument("load", 0, "f", "read")),
    "torch.jit": (Argument("save", 1, "f", "write"), Argument("load", 0, "f", "read")),
    "safetensors": (Argument("safe_open", 0, "filename", "read"),),
    "safetensors.torch": (
        Argument("save_file", 1, "filename", "write"),
        Argument("load_file", 0, "filename", "read"),
        Argument("save_model", 1, "filename", "write"),
        Argument("load_model", 1, "filename", "read"),
    ),
    "sqlite3": (Argument("connect", 0, "database", "keep"),),
    "sqlite3.dbapi2": (Argument("connect", 0, "database", "keep"),),
    "subprocess": (Argument("Popen", 9, "cwd", "read"),),
    "h5py": (Argument("File", 0, "name", "mode"),),
    "cv2": (Argument("imwrite", 0, "filename", "write"), Argument("imread", 0, "filename", "read")),
}
"""module -> its functions"""


def install(diversion: Diversion) -> None:
    """Wrap the functions of modules that are imported, and of the others once they are."""
    waiter = Waiter(diversion)
    for name in KNOWN:
        if name in sys.modules:
            waiter.waiting.discard(name)
            wrap(diversion, name, sys.modules[name])
    sys.meta_path.insert(0, waiter)


class Waiter:
    """A finder that delegates to the others and wraps functions of the modules they find."""

    def __init__(self, diversion: Diversion) -> None:
        self.diversion = diversion
        self.waiting = set(KNOWN)
        self.looking: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a known module, whose loader then calls ``wrap``."""
        if name not in self.waiting or name in self.looking:
            return None
        self.looking.add(name)
        try:
            spec = self._spec(name, path, target)
        finally:
            self.looking.discard(name)
        loader: Any = getattr(spec, "loader", None)
        if hasattr(loader, "exec_module") and hasattr(loader, "__dict__"):
            original = loader.exec_module

            def exec_module(module: Any) -> None:
                loader.__dict__.pop("exec_module", None)
                original(module)
                self.waiting.discard(name)
                wrap(self.diversion, name, module)

            loader.exec_module = exec_module
        return spec

    def _spec(self, name: str, path: Any, target: Any) -> Any:
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None


def wrap(diversion: Diversion, name: str, module: Any) -> None:
    """Wrap a module's functions to use paths in the mirror. Of a class written in Python, the
    initialiser is wrapped."""
    for argument in KNOWN[name]:
        owner, attribute, skipped = module, argument.function, 0
        original = getattr(module, attribute, None)
        if isinstance(original, type) and "__init__" in vars(original):
            owner, attribute, skipped = original, "__init__", 1
            original = vars(original)["__init__"]
        if original is not None:
            setattr(owner, attribute, wrap_function(diversion, original, argument, skipped))


def wrap_function(
    diversion: Diversion, original: Any, argument: Argument, skipped: int
) -> Callable[..., Any]:
    """Wrap one function; ``skipped`` arguments precede those of the table."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        before, args = args[:skipped], args[skipped:]
        args, kwargs = _replace_path(diversion, argument, args, kwargs)
        return original(*before, *args, **kwargs)

    return call


def _replace_path(
    diversion: Diversion, argument: Argument, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with the path in the mirror."""
    _, position, keyword, use = argument
    path = kwargs.get(keyword, args[position] if position < len(args) else None)
    if not isinstance(path, str | bytes | os.PathLike) or str(path).startswith((":", "file:")):
        return args, kwargs
    if use == "mode":
        mode = kwargs.get("mode", args[1] if len(args) > 1 else "r")
        use = "read" if mode == "r" else "write" if mode in ("w", "w-", "x") else "keep"
    where = _find_path(diversion, path, use)
    if where is None:
        return args, kwargs
    if keyword in kwargs:
        return args, {**kwargs, keyword: where}
    return (*args[:position], where, *args[position + 1 :]), kwargs


def _find_path(diversion: Diversion, path: Any, use: Use) -> str | None:
    mirror = diversion.mirror
    if not mirror.enter_call():
        return None
    try:
        place = mirror.locate_path(path)
        if place is None:
            return None
        return (
            diversion.path_to_read(place)
            if use == "read"
            else diversion.path_to_write(place, use == "keep")
        )
    finally:
        mirror.leave_call()
