"""A function of Python's that stands where another stood."""

from __future__ import annotations

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
