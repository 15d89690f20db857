"""Files of a job that are loaded, and the folders that its modules were found from.

Of a library nobody asks. A folder that would hide a library from those who import it, if it came
first in ``sys.path``, is not told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from .own_files import FOLDER

INSTALLED = {"site-packages", "dist-packages"}


def loaded_files() -> dict[str, list[str]]:
    """Whole path of each file, over links -> the folders that its name as a module starts from;
    none for a script, and for what is only seen to run."""
    found: dict[str, set[str]] = {}
    named = [
        (module, path) for module in list(sys.modules.values()) if (path := _module_file(module))
    ]
    for module, path in named:
        if not is_installed(path):
            real = os.path.realpath(path)
            name = getattr(vars(module).get("__spec__"), "name", None) or ""
            starts = {start for each in (path, real) if (start := _module_root(each, name))}
            found.setdefault(real, set()).update(map(os.path.realpath, starts))
    for path in _executed_files():
        found.setdefault(os.path.realpath(path), set())
    hiding = {start for starts in found.values() for start in starts if _hides_other_module(start)}
    return {path: sorted(starts - hiding) for path, starts in found.items()}


def _module_file(module: Any) -> str:
    """A module's; empty for what has none, and for what only stands in for one."""
    path = getattr(module, "__dict__", {}).get("__file__")
    ours = getattr(module, "__dict__", {}).get("__name__", "")
    return path if isinstance(path, str) and not str(ours).startswith("_whyidle") else ""


def is_installed(path: str) -> bool:
    """Whether a file is of Python's library, or one that was installed."""
    library = os.path.dirname(os.__file__) + os.sep
    return path.startswith((library, "<")) or bool(INSTALLED & set(path.split(os.sep)))


def _executed_files() -> Iterator[str]:
    """What is executed at this moment: a script that a profiler started is nobody's module."""
    for top in sys._current_frames().values():
        frame: Any = top
        while frame is not None:
            path = frame.f_code.co_filename
            if not is_installed(path) and not path.startswith(FOLDER):
                yield path
            frame = frame.f_back


def _module_root(path: str, name: str) -> str:
    """The folder from which a file is a module of that name; empty where it is none."""
    base = os.path.splitext(path)[0]
    if os.path.basename(base) == "__init__":
        base = os.path.dirname(base)
    tail = os.sep + name.replace(".", os.sep)
    return base[: -len(tail)] if name and base.endswith(tail) else ""


def _hides_other_module(start: str) -> bool:
    """Whether a folder has a module of the same name as one that was loaded from elsewhere."""
    for name in os.listdir(start):
        whole = os.path.join(start, name)
        package = os.path.isfile(os.path.join(whole, "__init__.py"))
        loaded = _module_file(sys.modules.get(name if package else name.removesuffix(".py")))
        if (package or name.endswith(".py")) and loaded:
            places = (loaded, os.path.realpath(loaded))
            real = os.path.realpath(whole)
            if not any(each.startswith((whole, real)) for each in places):
                return True
    return False
