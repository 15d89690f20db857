"""A function of Python's that stands where another stood."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


class Patched:
    """A function in another's place. No plain function, which would become a method where a class
    keeps it; it is pickled as what it stands for."""

    def __init__(self, original: Callable[..., Any], handle: Callable[..., Any]) -> None:
        self.handle = handle
        self.__name__ = original.__name__
        self.__qualname__ = original.__name__
        self.__module__ = "os" if original.__module__ in ("posix", "nt") else original.__module__
        self.__doc__ = original.__doc__
        self.__wrapped__ = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the original is called."""
        return self.handle(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__name__


def named(path: Any, where: str, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call it with ``where``; an error tells the name that the job gave."""
    try:
        return original(os.fsencode(where) if isinstance(path, bytes) else where, *args, **kwargs)
    except OSError as error:
        if error.filename in (where, os.fsencode(where)):
            error.filename = path
        raise
