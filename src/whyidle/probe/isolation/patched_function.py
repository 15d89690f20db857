"""A replacement of a function of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Patched:
    """A callable that replaces a function. Not a plain function, which would become a method in a
    class; it is pickled as the function that it replaces."""

    def __init__(self, original: Callable[..., Any], handle: Callable[..., Any]) -> None:
        self.handle = handle
        self.__name__ = original.__name__
        self.__qualname__ = original.__name__
        self.__module__ = "os" if original.__module__ in ("posix", "nt") else original.__module__
        self.__doc__ = original.__doc__
        self.__wrapped__ = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the replacement."""
        return self.handle(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__name__
