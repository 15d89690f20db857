"""Which call of the text a frame is in, and what the text says of it."""

from __future__ import annotations

import ast
import linecache
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType

from ._reads import Read, Text, reads


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
            self.texts[name] = _text(frame)
        text = self.texts[name]
        if text is None:
            return "its text is not there, or is another one by now"
        calls = [one for one in text.around if isinstance(one, ast.Call) and self.wanted(one)]
        found = [call for call in calls if _is_at(call, frame)]
        return (text, found[0]) if len(found) == 1 else "it is not found in the text"


def meant(method: str, frame: FrameType) -> tuple[type, str]:
    """Whose method that is in a frame, and its name; nobody's where it takes more than a look."""
    first, *names, last = method.split(".")
    found = frame.f_locals.get(first, frame.f_globals.get(first))
    for name in names:
        found = getattr(found, "__dict__", {}).get(name)
    return type(found), last


def _text(frame: FrameType) -> Text | None:
    """None where the code that runs is not what the text says."""
    code = frame.f_code
    text = "".join(linecache.getlines(code.co_filename, frame.f_globals))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of the user's own lines
            whole = compile(text, code.co_filename, "exec", dont_inherit=True)
            return Text(text, frame.f_globals) if _holds(whole, code) else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _holds(whole: CodeType, code: CodeType) -> bool:
    parts = (one for one in whole.co_consts if isinstance(one, CodeType))
    return _looks(whole) == _looks(code) or any(_holds(part, code) for part in parts)


def _looks(code: CodeType) -> tuple[object, ...]:
    """Code that runs may have changed itself, and is then no longer equal: this stays."""
    return code.co_name, code.co_firstlineno, code.co_code, code.co_names, code.co_varnames


def _is_at(call: ast.Call, frame: FrameType) -> bool:
    """Its end tells: where a chain of calls over several lines begins, versions of Python differ.
    Python 3.10 knows the line alone."""
    if sys.version_info < (3, 11):
        return call.lineno <= frame.f_lineno <= (call.end_lineno or call.lineno)
    for number, (_, line, _, column) in enumerate(frame.f_code.co_positions()):
        if number == frame.f_lasti // 2:
            return (line, column) == (call.end_lineno, call.end_col_offset)
    return False
