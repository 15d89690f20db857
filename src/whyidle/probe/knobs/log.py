"""Single numbers of the device are read when somebody looks at them, not when they are asked for.

``total += loss.item()`` waits for the device in every step, so that the host cannot be ahead of it.
Where the text of the script shows that nobody but its own sums, comparisons and prints gets to see
the number (``_reads``), ``item`` gives one that is read there (``_later``): a copy of it is kept on
the device. So does one that is kept on an object of the job's own (``_kept``), or goes straight to
a method of one, of which the text shows the same; and one for a tracker whose calls a thread beside
the training makes (``logging``), or for a bar of tqdm's (``_bars``). Elsewhere ``item`` is as ever.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ..frameworks.torch.tracing import tracing_query
from . import Hand, _bars, _keepers
from ._asking import Asked, meant
from ._later import Later, settle
from ._reads import Read

KNOB = "log.deferred"
STEPS = 20
"""steps after which it is told where nothing could be put off"""
EVERY = 200
"""steps, after which what has been imported since is looked for"""
OURS = __package__.rpartition(".")[0] + "."
MANY = 1024
"""numbers noted as put off, after which those that are gone are struck out"""


class Reads:
    """What is put off in one process."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.known: dict[tuple[CodeType, int], Read] = {}
        self.texts = Asked()
        self.keepers = _keepers.Keepers(self.texts, functools.partial(hand.contained, [KNOB]))
        self.why = "no number of the device's was read by Python"
        self.open: list[weakref.ref[Later]] = []
        self.said = False
        """whether it has been told that nothing could be put off so far"""

    def asked(self, tensor: Any, frame: FrameType) -> Later | None:
        """Of ``tensor.item()``: what stands for it; None where it has to be read at once."""
        place = frame.f_code, frame.f_lasti
        found = self.known.get(place)
        if found is None:
            found = self.known[place] = self.texts.read(frame)
        found = self._becomes(found, frame)
        if found.why:
            name = os.path.basename(frame.f_code.co_filename)
            self.why = f"{name}:{frame.f_lineno} has to read at once: {found.why}"
            return None
        module = getattr(sys.modules["torch"], tensor.device.type, None)
        stream = getattr(module, "current_stream", lambda _: None)(tensor.device)
        held = tensor.detach().reshape(()).clone(), stream
        made = Later(held, fresh=found.fresh, wide=found.wide, fold=found.fold)
        if len(self.open) >= MANY:
            self.open = [one for one in self.open if one() is not None]
        self.open.append(weakref.ref(made))
        self.hand.took(KNOB)
        return made

    def _becomes(self, found: Read, frame: FrameType) -> Read:
        """What becomes of it there, this time."""
        if not found.method:
            return self.keepers.variables(found, frame)
        one, name = meant(found.method, frame)
        kind = type(one)
        base = next((one for one in kind.__mro__ if name in self.hand.beside.get(one, ())), None)
        if base is None or getattr(kind, name) is not getattr(base, name):
            return self.keepers.method(found, one, name)
        whole = found.inside and name != _bars.SHOW
        return found._replace(why=f"it is given to {found.method}" if whole else "")

    def settle(self) -> None:
        """Read all that is put off: a child of this process could not."""
        still, self.open = [one() for one in self.open], []
        settle(one for one in still if one is not None)

    @property
    def off(self) -> bool:
        """Whether it has been given up, after a fault of ours."""
        return KNOB in self.hand.declined and not self.said

    def stepped(self, step: int) -> None:
        """Say so where nothing could be put off. An evaluation may still have what can."""
        if step == STEPS and KNOB not in self.hand.applied and not self.off:
            self.said = True
            self.hand.decline([KNOB], self.why)


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Put off what can be."""
    import torch

    if not edits.get(KNOB):
        return
    reads, compiling = Reads(hand), tracing_query()

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def item(self: Any) -> Any:
            if compiling():  # first: no more of this is to be traced
                return original(self)
            if self.device.type in ("cpu", "meta") or self.numel() != 1 or hand.child:
                return original(self)
            if _unusual(type(self)) or reads.off:
                return original(self)
            found = hand.contained([KNOB], reads.asked, self, _caller())
            return original(self) if found is None else found

        return item

    hand.replace(torch.Tensor, "item", make)
    bars: list[bool] = []

    def look(step: int) -> None:
        """Bars may be imported at any time."""
        if not bars and (step <= STEPS or step % EVERY == 0) and _bars.adopt(hand):
            bars.append(True)
        reads.stepped(step)

    look(0)
    hand.after_steps(look)
    hand.undo += [reads.settle, reads.keepers.places.back]
    os.register_at_fork(before=reads.settle)


def _unusual(kind: type) -> bool:
    """Whether it is one of PyTorch's own tensors that are more than one: distributed, or faked."""
    return kind.__name__ != "Tensor" and kind.__module__.startswith("torch.")


def _caller() -> FrameType:
    """Whoever asks for the number: what marks the time of reads may stand in between."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(OURS):
        frame = frame.f_back
    return frame
