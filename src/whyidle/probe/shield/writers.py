"""Functions that open files in code that is no Python, by the names they are given.

Each is wrapped once its module has been imported: its path is replaced by where the view has it.
"""

from __future__ import annotations

import functools
import os
import sys
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from .paths import written
from .view import SHARED, View

Use = Literal["read", "write", "keep", "mode"]
"""what becomes of the file: it is read; written anew; written further; or as ``mode`` says"""


MAY_BE_BASE = 1 << 10
"""of a type's flags"""


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


def install(view: View) -> None:
    """Wrap what has been imported, and all else once it is."""
    waiter = Waiter(view)
    for name in KNOWN:
        if name in sys.modules:
            waiter.waiting.discard(name)
            wrap(view, name, sys.modules[name])
    sys.meta_path.insert(0, waiter)


class Waiter:
    """A finder that finds nothing itself, and wraps functions of modules that others have found."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.waiting = set(KNOWN)
        self.looking: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a known module, whose loader then calls `wrap`."""
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
                wrap(self.view, name, module)

            loader.exec_module = exec_module
        return spec

    def _spec(self, name: str, path: Any, target: Any) -> Any:
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None


def wrap(view: View, name: str, module: Any) -> None:
    """Put our functions in place of a module's."""
    for argument in KNOWN[name]:
        original = getattr(module, argument.function, None)
        if original is not None:
            setattr(module, argument.function, wrapped(view, original, argument))


def wrapped(view: View, original: Any, argument: Argument) -> Any:
    """One function, with its path replaced. A class stays one: jobs ask for its instances."""
    if isinstance(original, type) and original.__flags__ & MAY_BE_BASE:
        return _subclass(view, original, argument)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _moved(view, argument, args, kwargs)
        return original(*args, **kwargs)

    return call


def _subclass(view: View, original: type, argument: Argument) -> type:
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        args, kwargs = _moved(view, argument, args, kwargs)
        original.__init__(self, *args, **kwargs)  # type: ignore[misc]

    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if "__new__" not in vars(original):
            return object.__new__(cls)
        args, kwargs = _moved(view, argument, args, kwargs)
        return original.__new__(cls, *args, **kwargs)

    return type(original.__name__, (original,), {"__init__": begin, "__new__": make})


def _moved(
    view: View, argument: Argument, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with the path as the view has it."""
    _, position, keyword, use = argument
    path = kwargs.get(keyword, args[position] if position < len(args) else None)
    if not isinstance(path, str | bytes | os.PathLike) or str(path).startswith((":", "file:")):
        return args, kwargs
    if use == "mode":
        mode = kwargs.get("mode", args[1] if len(args) > 1 else "r")
        use = "read" if mode == "r" else "write" if mode in ("w", "w-", "x") else "keep"
    where = _where(view, path, use)
    if where is None:
        if argument.use in ("write", "keep"):
            _begin(path)
        return args, kwargs
    if keyword in kwargs:
        return args, {**kwargs, keyword: where}
    return (*args[:position], where, *args[position + 1 :]), kwargs


def _where(view: View, path: Any, use: Use) -> str | None:
    if not view.enter():
        return None
    try:
        place = view.locate(path)
        if place is None:
            return None
        if use == "read":
            return view.source(place)
        return written(view, place, keep=use == "keep", fresh=False)
    finally:
        view.leave()


def _begin(path: Any) -> None:
    """Make a file of shared memory in Python, so that it is named (`shared.Marks`)."""
    if os.path.abspath(os.fsdecode(path)).startswith(SHARED) and not os.path.lexists(path):
        with suppress(OSError), open(path, "xb"):  # what is wrong with it is said where it is made
            pass
