"""The functions of Python that take two names of files, each made of a `View` and the original."""

from __future__ import annotations

import errno
import os
from typing import Any

from .paths import Function, new
from .view import View


def move(view: View, original: Function) -> Function:
    """``os.rename`` and ``os.replace``."""

    def call(src: Any, dst: Any, **kwargs: Any) -> Any:
        if any(each is not None for each in kwargs.values()) or not view.enter():
            return original(src, dst, **kwargs)
        try:
            old, new = view.locate(src), view.locate(dst)
            if old is None and new is None:
                return original(src, dst)
            return _move(view, original, (src, dst), (old, new))
        finally:
            view.leave()

    return call


def _move(view: View, original: Function, names: tuple[Any, Any], places: tuple[Any, Any]) -> None:
    """Move what the job knows as ``names``, where either may be none of the view's."""
    (src, dst), (old, new) = names, places
    if new is not None and not os.path.isdir(view.layer(os.path.dirname(new))):
        os.lstat(view.layer(new))  # which says what is wrong
    if old is not None:
        os.lstat(view.layer(old))
        if old == new:
            return
        if new is not None:
            wrong = _unfit(view, old, new)
            if wrong:
                raise OSError(wrong, os.strerror(wrong), src, None, dst)
        view.lift(old)
    source = src if old is None else view.upper + old
    original(source, dst if new is None else view.target(new, keep=False, follow=False))
    if old is not None:
        view.removed(old)


def _unfit(view: View, old: str, new: str) -> int | None:
    """Why the system would not move one over the other; it sees one layer only."""
    source, target = view.layer(old), view.layer(new)
    if new.startswith(old + "/"):
        return errno.EINVAL
    if old.startswith(new + "/"):
        return errno.ENOTEMPTY
    if not os.path.lexists(target):
        return None
    if not _folder(source):
        return errno.EISDIR if _folder(target) else None
    if not _folder(target):
        return errno.ENOTDIR
    return errno.ENOTEMPTY if view.names(new) else None


def _folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def link(view: View, original: Function) -> Function:
    """``os.link``."""

    def call(src: Any, dst: Any, **kwargs: Any) -> Any:
        if not view.enter():
            return original(src, dst, **kwargs)
        try:
            old, place = view.locate(src), view.locate(dst)
            if place is None and old is None:
                return original(src, dst, **kwargs)
            if old is not None:
                os.lstat(view.layer(old))  # which says what is wrong
                view.forget()
                view.lift(old)  # a second name of the real one would let it be written
                # a link's own second name: where newer Pythons follow it, the real file's
                kwargs["follow_symlinks"] = False
            source = src if old is None else view.upper + old
            return original(source, dst if place is None else new(view, place), **kwargs)
        finally:
            view.leave()

    return call


def symlink(view: View, original: Function) -> Function:
    """``os.symlink``."""

    def call(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dir_fd") is not None or not view.enter():
            return original(src, dst, *args, **kwargs)
        try:
            view.forget()
            place = view.locate(dst)
            return original(src, dst if place is None else new(view, place), *args)
        finally:
            view.leave()

    return call
