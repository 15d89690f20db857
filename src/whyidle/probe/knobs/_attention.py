"""Attention that was told to return its weights, where nobody looks at them, and models of
transformers that were told to write theirs out."""

from __future__ import annotations

import ast
import inspect
import os
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ..frameworks.torch.tracing import tracing_query
from . import Hand
from ._asking import Asked
from ._reads import Text

KNOB = "model.attention"
OWN = "its attention is written out in its own code"
STEPS = 2
"""steps after which it is told where nothing could be fused"""
ASKED_FOR = "its weights are asked for"
Call = Callable[..., Any]
Outermost = Callable[[Hand, dict[str, Any], Callable[[Any, Call], Call]], None]


def fuse(hand: Hand, form: str, outermost: Outermost) -> None:
    """Ask for ``form`` where the model has a switch for it."""
    switch = Switch(hand, form)
    if form == "sdpa":
        switch.without_weights()
    outermost(hand, {KNOB: form}, switch.adopt)
    hand.after_steps(switch.stepped)


class Switch:
    """What is switched in one process."""

    def __init__(self, hand: Hand, form: str) -> None:
        self.hand, self.form = hand, form
        self.calls = Asked(_may_be)
        self.known: dict[tuple[CodeType, int], bool] = {}
        self.why = OWN

    def without_weights(self) -> None:
        """``nn.MultiheadAttention`` computes the matrix of weights only to return it: where the
        text shows that what it returns second is thrown away it is not asked for."""
        from torch.nn import MultiheadAttention

        signature = inspect.signature(MultiheadAttention.forward)
        compiling = tracing_query()

        switch = self

        def make(original: Call) -> Call:
            def forward(module: Any, *args: Any, **named: Any) -> Any:
                if compiling() or KNOB in switch.hand.declined:
                    return original(module, *args, **named)
                given = signature.bind(module, *args, **named)
                given.apply_defaults()
                if not given.arguments["need_weights"] or _watched(module):
                    return original(module, *args, **named)
                if switch.hand.contained([KNOB], switch.thrown_away, _caller()):
                    given.arguments["need_weights"] = False
                    switch.hand.took(KNOB)
                return original(*given.args, **given.kwargs)

            return forward

        self.hand.replace(MultiheadAttention, "forward", make)

    def thrown_away(self, frame: FrameType) -> bool:
        """Whether the caller looks at what it is given first only."""
        place = frame.f_code, frame.f_lasti
        if place not in self.known:
            found = self.calls.call(frame)
            self.known[place] = not isinstance(found, str) and _first_only(*found)
            if not self.known[place]:
                name = os.path.basename(frame.f_code.co_filename)
                self.why = f"{name}:{frame.f_lineno} may look at the weights"
        return self.known[place]

    def adopt(self, model: Any, call: Call) -> Call:
        """A model of transformers can be told, from its first call on."""
        own = [one for one in model.modules() if _has_a_switch(one)]
        if not own or all(one.config._attn_implementation == self.form for one in own):
            return call
        if any(getattr(one.config, "output_attentions", False) for one in own):
            self.why = ASKED_FOR
            return call
        was = own[0].config._attn_implementation
        own[0].set_attn_implementation(self.form)
        if own[0].config._attn_implementation != self.form:
            self.why = f"{type(own[0]).__name__} cannot be told to attend in another way"
            return call
        self.hand.took(KNOB)
        head: Callable[[], Any] = weakref.ref(own[0])

        def attend(*args: Any, **named: Any) -> Any:
            if named.get("output_attentions") and KNOB not in self.hand.declined:
                head().set_attn_implementation(was)  # it is being called, and so is there
                self.hand.decline([KNOB], ASKED_FOR)
            return call(*args, **named)

        return attend

    def stepped(self, step: int) -> None:
        """Say so where nothing could be fused."""
        if step == STEPS and KNOB not in self.hand.applied:
            self.hand.decline([KNOB], self.why)


def _has_a_switch(module: Any) -> bool:
    return hasattr(module, "set_attn_implementation") and hasattr(
        getattr(module, "config", None), "_attn_implementation"
    )


def _watched(module: Any) -> bool:
    """Whether somebody looks at whatever it returns."""
    from torch.nn.modules import module as home

    return bool(module._forward_hooks or home._global_forward_hooks)


def _caller() -> FrameType:
    """Whoever calls the module: past this folder's frames and those of ``Module.__call__``."""
    frame = sys._getframe(2)
    ours = (__package__.rpartition(".")[0] + ".", "torch.nn.modules.module")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        frame = frame.f_back
    return frame


def _may_be(call: ast.Call) -> bool:
    """Whether a call gives what attention needs, at least."""
    return len(call.args) + len(call.keywords) >= 3 or any(
        isinstance(arg, ast.Starred) for arg in call.args
    )


def _first_only(text: Text, call: ast.Call) -> bool:
    """``attend(...)[0]``, or ``x, _ = attend(...)`` in a function where nothing reads ``_``."""
    around = text.around[call]
    if isinstance(around, ast.Subscript):
        index = around.slice
        return isinstance(index, ast.Constant) and index.value == 0
    if not isinstance(around, ast.Assign) or len(around.targets) != 1:
        return False
    pair = around.targets[0]
    if not isinstance(pair, ast.Tuple) or len(pair.elts) != 2:
        return False
    second = pair.elts[1]
    return isinstance(second, ast.Name) and text.never_read(second)
