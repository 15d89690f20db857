"""Models of transformers that write their attention out, switched to a fused kernel.

They have a public switch for it, ``set_attn_implementation``. ``nn.MultiheadAttention`` has none:
there the caller says with ``need_weights=False`` that it needs no weights, which takes a change of
the script.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from . import KnobSession

KNOB = "model.attention"
OWN = "its attention is written out in its own code"
STEPS = 2
"""steps after which it is told where nothing could be fused"""
ASKED_FOR = "its weights are asked for"
Call = Callable[..., Any]
Outermost = Callable[[KnobSession, dict[str, Any], Callable[[Any, Call], Call]], None]


def fuse_attention(hand: KnobSession, form: str, outermost: Outermost) -> None:
    """Ask for ``form`` where the model has a switch for it."""
    switch = AttentionSwitch(hand, form)
    outermost(hand, {KNOB: form}, switch.adopt_model)
    hand.after_steps(switch.note_step)


class AttentionSwitch:
    """What is switched in one process."""

    def __init__(self, hand: KnobSession, form: str) -> None:
        self.hand, self.form = hand, form
        self.why = OWN

    def adopt_model(self, model: Any, call: Call) -> Call:
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
        self.hand.record_applied(KNOB)
        head: Callable[[], Any] = weakref.ref(own[0])

        def attend(*args: Any, **named: Any) -> Any:
            if named.get("output_attentions") and KNOB not in self.hand.declined:
                head().set_attn_implementation(was)  # it is being called, and so is there
                self.hand.decline_knobs([KNOB], ASKED_FOR)
            return call(*args, **named)

        return attend

    def note_step(self, step: int) -> None:
        """Say so where nothing could be fused."""
        if step == STEPS and KNOB not in self.hand.applied:
            self.hand.decline_knobs([KNOB], self.why)


def _has_a_switch(module: Any) -> bool:
    return hasattr(module, "set_attn_implementation") and hasattr(
        getattr(module, "config", None), "_attn_implementation"
    )
