"""The functions of Python that take one name of a file, each made of a `View` and the original."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from .listing import Listing
from .patched import named
from .view import View

Function = Callable[..., Any]


def diverted(view: View, original: Function, handle: Callable[..., Function]) -> Function:
    """``original``, but where its first argument is a path of the view: then ``handle``, called
    with the place, the path and all further arguments, says what is to be called instead."""

    def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        if isinstance(path, int) or kwargs.get("dir_fd") is not None or not view.enter():
            return original(path, *args, **kwargs)
        try:
            place = view.locate(path)
            instead = None if place is None else handle(place, path, *args, **kwargs)
        finally:
            view.leave()
        return original(path, *args, **kwargs) if instead is None else instead()

    return call


def elsewhere(view: View, original: Function, choose: Callable[..., str | None]) -> Function:
    """``original`` with its first argument replaced by what ``choose`` makes of it."""

    def handle(place: str, path: Any, *args: Any, **kwargs: Any) -> Any:
        where = choose(place, *args, **kwargs)
        return None if where is None else partial(named, path, where, original, args, kwargs)

    return diverted(view, original, handle)


def instead(view: View, original: Function, work: Callable[[str], None]) -> Function:
    """For a path of the view ``work`` is done with the place."""

    def handle(place: str, *_: Any, **__: Any) -> Function:
        work(place)
        return _nothing

    return diverted(view, original, handle)


def _nothing() -> None:
    pass


def read(view: View, original: Function) -> Function:
    """What looks at a file, over links."""

    def choose(place: str, *_: Any, **kwargs: Any) -> str:
        return view.source(place, kwargs.get("follow_symlinks", True))

    return elsewhere(view, original, choose)


def look(view: View, original: Function) -> Function:
    """What looks at a link itself."""
    return elsewhere(view, original, lambda place, *_, **__: view.source(place, follow=False))


def change(view: View, original: Function, links: bool = True) -> Function:
    """What changes a file that is there; ``links`` is whether over links."""

    def choose(place: str, *_: Any, **kwargs: Any) -> str | None:
        if view.special(place):
            return None
        follow = links and kwargs.get("follow_symlinks", True)
        found = view.source(place, follow)
        return view.target(place, keep=True, follow=follow) if os.path.lexists(found) else found

    return elsewhere(view, original, choose)


def change_link(view: View, original: Function) -> Function:
    """What changes a link itself."""
    return change(view, original, links=False)


def make(view: View, original: Function) -> Function:
    """What makes something of a new name."""
    return elsewhere(view, original, lambda place, *_, **__: new(view, place))


def new(view: View, place: str) -> str:
    """Where to make what must not be there."""
    if view.exists(place):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place)
    return view.target(place, keep=False, follow=False)


def written(view: View, place: str, keep: bool, fresh: bool) -> str | None:
    """Where to open for writing; ``fresh`` is whether it must not be there."""
    if view.special(place):
        return None
    if fresh:
        return new(view, place)
    place = view.final(place)
    found = view.layer(place)
    return found if os.path.isdir(found) else view.target(place, keep)


def open_file(view: View, original: Function) -> Function:
    """``open``."""

    def choose(place: str, mode: str = "r", *_: Any, **kwargs: Any) -> str | None:
        if kwargs.get("opener") is not None:
            return None  # it calls ``os.open``
        if not set(mode) & set("wax+"):
            return view.source(place)
        if "r" in mode and not view.exists(place):
            return view.source(place)
        return written(view, place, keep=not set(mode) & set("wx"), fresh="x" in mode)

    call = elsewhere(view, original, choose)

    def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
        return call(file, *args, **kwargs)

    return opened


def open_descriptor(view: View, original: Function) -> Function:
    """``os.open``."""
    unnamed = getattr(os, "O_TMPFILE", -1)

    def choose(place: str, flags: int, *_: Any, **__: Any) -> str | None:
        if flags & unnamed == unnamed:
            return view.target(os.path.join(place, "x"), keep=False)[:-2]
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            return view.source(place)
        if not flags & os.O_CREAT and not view.exists(place):
            return view.source(place)
        return written(view, place, keep=not flags & os.O_TRUNC, fresh=bool(flags & os.O_EXCL))

    call = elsewhere(view, original, choose)

    def opened(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        return call(path, flags, *args, **kwargs)

    return opened


def remove(view: View, original: Function) -> Function:
    """``os.remove``."""

    def work(place: str) -> None:
        os.lstat(view.layer(place))  # which says what is wrong
        if os.path.lexists(view.upper + place):
            original(view.upper + place)
        elif os.path.isdir(place) and not os.path.islink(place):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)
        view.removed(place)

    return instead(view, original, work)


def remove_folder(view: View, original: Function) -> Function:
    """``os.rmdir``."""

    def work(place: str) -> None:
        found = view.source(place, follow=False)
        if os.path.islink(found) or not os.path.isdir(found):
            original(found)  # which says what is wrong
            return
        if view.names(place):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), place)
        if os.path.isdir(view.upper + place):
            original(view.upper + place)
        view.removed(place)

    return instead(view, original, work)


def change_folder(view: View, original: Function) -> Function:
    """``os.chdir``."""

    def choose(place: str) -> str:
        return place if os.path.isdir(place) and not view.is_gone(place) else view.source(place)

    return elsewhere(view, original, choose)


def folder(view: View, original: Function) -> Function:
    """``os.getcwd``."""

    def call() -> str:
        found: str = original()
        return found[len(view.upper) :] or "/" if found.startswith(view.upper) else found

    return call


def names(view: View, original: Function) -> Function:
    """``os.listdir``."""

    def merged(path: Any, found: list[str]) -> Any:
        return [os.fsencode(name) for name in found] if isinstance(path, bytes) else found

    return _listing(view, original, merged)


def entries(view: View, original: Function) -> Function:
    """``os.scandir``."""
    return _listing(view, original, Listing)


def _listing(view: View, original: Function, merged: Callable[..., Any]) -> Function:
    def handle(place: str, path: Any) -> Function:
        place = view.final(place)
        if view.touched(place):
            return partial(merged, path, view.names(place))
        return partial(named, path, view.layer(place), original, (), {})

    call = diverted(view, original, handle)
    return lambda path=".": call("." if path is None else path)
