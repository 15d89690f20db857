"""Progress bars that are told a number of the device's in every step, and drawn now and then.

``bar.set_postfix(loss=loss.item())`` draws the bar anew each time. Given numbers that are read
later, tqdm's bars on a terminal are drawn as often as they are without it: after ``mininterval``, a
tenth of a second where nobody has set it, and at the end. What is drawn is the same.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from . import Hand
from ._later import Later, plain

MODULE, KIND, SHOW = "tqdm.std", "tqdm", "set_postfix"
TOLD, DRAWN = "_whyidle_told", "_whyidle_drawn"
"""what a bar has been told since it was drawn, and when that was, in s"""


def adopt(hand: Hand) -> bool:
    """Wrap tqdm's bars, if they are there."""
    kind = getattr(sys.modules.get(MODULE), KIND, None)
    if not isinstance(kind, type):
        return False
    shows = vars(kind)[SHOW]
    hand.replace(kind, "display", lambda original: _drawing(original, shows))
    hand.replace(kind, SHOW, lambda original: _showing(original, vars(kind)["display"]))
    hand.beside[kind] = (SHOW,)
    hand.undo.append(hand.beside.clear)
    return True


def _showing(original: Callable[..., Any], display: Any) -> Callable[..., Any]:
    def set_postfix(
        self: Any, ordered_dict: Any = None, refresh: bool = True, **kwargs: Any
    ) -> Any:
        told = {**dict(ordered_dict or ()), **dict(sorted(kwargs.items()))}
        own = vars(self)
        own.pop(TOLD, None)
        late = any(type(one) is Later for one in told.values())
        if not late or type(self).display is not display:  # it draws in a way of its own
            return original(self, {name: plain(one) for name, one in told.items()}, refresh)
        own[TOLD] = told
        due = time.monotonic() - own.get(DRAWN, float("-inf")) >= own.get("mininterval", 0.0)
        if refresh and due and not self.disable:
            self.refresh()
            own[DRAWN] = time.monotonic()
        return None

    return set_postfix


def _drawing(original: Callable[..., Any], shows: Callable[..., Any]) -> Callable[..., Any]:
    def display(self: Any, *args: Any, **kwargs: Any) -> Any:
        told = vars(self).pop(TOLD, None)
        if told is not None:
            shows(self, {name: plain(one) for name, one in told.items()}, refresh=False)
        return original(self, *args, **kwargs)

    return display
