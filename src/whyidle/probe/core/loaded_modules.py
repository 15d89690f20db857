"""The loaded files of a job, and the folders that its modules were found in.

Libraries are left out, and so is a folder that would hide a library if it came first in
``sys.path``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from .own_files import FOLDER

INSTALLED = {"site-packages", "dist-packages"}


def loaded_files() -> dict[str, list[str]]:
    """Map the real path of each file to the folders that its module name starts from; none for a
    script, and for a file that is only seen to run."""
    files: dict[str, set[str]] = {}
    named = [
        (module, path) for module in list(sys.modules.values()) if (path := _module_file(module))
    ]
    for module, path in named:
        if not is_installed(path):
            real = os.path.realpath(path)
            name = getattr(vars(module).get("__spec__"), "name", None) or ""
            starts = {start for place in (path, real) if (start := _module_root(place, name))}
            files.setdefault(real, set()).update(map(os.path.realpath, starts))
    for path in _executed_files():
        files.setdefault(os.path.realpath(path), set())
    hiding = {start for starts in files.values() for start in starts if _hides_other_module(start)}
    return {path: sorted(starts - hiding) for path, starts in files.items()}


def _module_file(module: Any) -> str:
    """Path of a module's file; empty if it has none, and for the probe's own modules."""
    path = getattr(module, "__dict__", {}).get("__file__")
    ours = getattr(module, "__dict__", {}).get("__name__", "")
    return path if isinstance(path, str) and not str(ours).startswith("_whyidle") else ""


def is_installed(path: str) -> bool:
    """Whether a file belongs to Python's library or to an installed package."""
    library = os.path.dirname(os.__file__) + os.sep
    return path.startswith((library, "<")) or bool(INSTALLED & set(path.split(os.sep)))


def _executed_files() -> Iterator[str]:
    """Files that run now: a script started by a profiler is not in ``sys.modules``."""
    for top in sys._current_frames().values():
        frame: Any = top
        while frame is not None:
            path = frame.f_code.co_filename
            if not is_installed(path) and not path.startswith(FOLDER):
                yield path
            frame = frame.f_back


def _module_root(path: str, name: str) -> str:
    """The folder in which a file is a module of that name; empty if there is none."""
    base = os.path.splitext(path)[0]
    if os.path.basename(base) == "__init__":
        base = os.path.dirname(base)
    tail = os.sep + name.replace(".", os.sep)
    return base[: -len(tail)] if name and base.endswith(tail) else ""


def _hides_other_module(start: str) -> bool:
    """Whether a folder has a module of the same name as one loaded from elsewhere, or is gone."""
    try:
        names = os.listdir(start)
    except OSError:
        return True
    for name in names:
        whole = os.path.join(start, name)
        package = os.path.isfile(os.path.join(whole, "__init__.py"))
        loaded = _module_file(sys.modules.get(name if package else name.removesuffix(".py")))
        if (package or name.endswith(".py")) and loaded:
            places = (loaded, os.path.realpath(loaded))
            real = os.path.realpath(whole)
            if not any(place.startswith((whole, real)) for place in places):
                return True
    return False
