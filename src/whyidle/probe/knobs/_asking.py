"""Which call of the text a frame is in, and what the text says of it."""

from __future__ import annotations

import ast
import linecache
import sys
import warnings
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, FunctionType
from typing import Any

from ._reads import Read, Text
from ._script import reads

ANOTHER = "its text is not there, or is another one by now"


class Asked:
    """The files of which some place has asked for a number, or ``wanted`` another call."""

    def __init__(self, wanted: Callable[[ast.Call], bool] = reads) -> None:
        self.wanted = wanted
        self.texts: dict[str, Text | None] = {}

    def read(self, frame: FrameType) -> Read:
        """What becomes of the number that is read where ``frame`` is now."""
        found = self.call(frame)
        return Read(found) if isinstance(found, str) else found[0].read(found[1])

    def call(self, frame: FrameType) -> tuple[Text, ast.Call] | str:
        """The call that ``frame`` is in now, and the text around it; or why it is not known."""
        name = frame.f_code.co_filename
        if name not in self.texts:
            self.texts[name] = text_of(name, frame.f_globals, frame.f_code)
        text = self.texts[name]
        if text is None:
            return ANOTHER
        calls = [one for one in text.around if isinstance(one, ast.Call) and self.wanted(one)]
        found = [call for call in calls if is_at(call, frame)]
        return (text, found[0]) if len(found) == 1 else "it is not found in the text"

    def parameter(self, function: FunctionType, argument: int | str) -> Read:
        """What becomes of what a method is given as one of its arguments, itself not counted."""
        code = function.__code__
        text = text_of(code.co_filename, function.__globals__, code)
        if text is None:
            return Read(ANOTHER)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        own = names[1 : code.co_argcount]
        if isinstance(argument, int):
            argument = own[argument] if argument < len(own) else ""
        found = [
            one
            for one in text.around
            if isinstance(one, ast.FunctionDef) and one.name == function.__name__
            if one.lineno == code.co_firstlineno and not one.decorator_list
        ]
        if len(found) != 1 or argument not in names[1:]:
            return Read("it is not found in the text")
        read = text.parameter(found[0], argument)
        mine = all(one.owner == names[0] for one in read.kept)
        return read if mine else Read(f"{argument} is kept by others")


def meant(method: str, frame: FrameType) -> tuple[Any, str]:
    """Whose method that is in a frame, and its name; nobody's where it takes more than a look."""
    first, *names, last = method.split(".")
    found = variable(frame, first)
    for name in names:
        found = getattr(found, "__dict__", {}).get(name)
    return found, last


def variable(frame: FrameType, name: str) -> Any:
    """What is in a variable. Until Python 3.13 a frame that is asked keeps what its variables held
    by then, tensors too, as long as it runs: it is made to forget them."""
    held = frame.f_locals
    found = held.get(name, frame.f_globals.get(name))
    if frame.f_code.co_flags & CO_OPTIMIZED and type(held) is dict:
        held.clear()
    return found


def text_of(path: str, names: dict[str, Any], code: CodeType | None = None) -> Text | None:
    """A file's; None where ``code`` that runs is not what it says."""
    text = "".join(linecache.getlines(path, names))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of the user's own lines
            whole = compile(text, path, "exec", dont_inherit=True)
            return Text(text, names) if text and (not code or _holds(whole, code)) else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _holds(whole: CodeType, code: CodeType) -> bool:
    parts = (one for one in whole.co_consts if isinstance(one, CodeType))
    return _looks(whole) == _looks(code) or any(_holds(part, code) for part in parts)


def _looks(code: CodeType) -> tuple[object, ...]:
    """Code that runs may have changed itself, and is then no longer equal: this stays."""
    return code.co_name, code.co_firstlineno, code.co_code, code.co_names, code.co_varnames


def is_at(call: ast.expr, frame: FrameType) -> bool:
    """Its end tells: where a chain of calls over several lines begins, versions of Python differ.
    Python 3.10 knows the line alone."""
    if sys.version_info < (3, 11):
        return call.lineno <= frame.f_lineno <= (call.end_lineno or call.lineno)
    for number, (_, line, _, column) in enumerate(frame.f_code.co_positions()):
        if number == frame.f_lasti // 2:
            return (line, column) == (call.end_lineno, call.end_col_offset)
    return False
