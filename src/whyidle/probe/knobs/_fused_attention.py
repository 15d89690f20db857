"""Switches models of transformers from eager attention to a fused kernel.

They have a public method for it, ``set_attn_implementation``. ``nn.MultiheadAttention`` has none:
its caller must pass ``need_weights=False``, which needs a change of the script.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from . import KnobSession

KNOB = "model.attention"
OWN = "the model's attention is eager code of its own, without a switch"
STEPS = 2
"""steps after which the knob declines if nothing was switched"""
ASKED_FOR = "the model returns attention weights"
Call = Callable[..., Any]
Outermost = Callable[[KnobSession, dict[str, Any], Callable[[Any, Call], Call]], None]


def fuse_attention(session: KnobSession, form: str, outermost: Outermost) -> None:
    """Switch attention to ``form`` if the model supports it."""
    switch = AttentionSwitch(session, form)
    outermost(session, {KNOB: form}, switch.adopt_model)
    session.after_steps(switch.note_step)


class AttentionSwitch:
    """The attention of the models of one process."""

    def __init__(self, session: KnobSession, form: str) -> None:
        self.session, self.form = session, form
        self.why = OWN

    def adopt_model(self, model: Any, call: Call) -> Call:
        """Switch a model of transformers at its first call."""
        own = [module for module in model.modules() if _has_a_switch(module)]
        if not own or all(module.config._attn_implementation == self.form for module in own):
            return call
        if any(getattr(module.config, "output_attentions", False) for module in own):
            self.why = ASKED_FOR
            return call
        was = own[0].config._attn_implementation
        own[0].set_attn_implementation(self.form)
        if own[0].config._attn_implementation != self.form:
            self.why = f"{type(own[0]).__name__} has no other attention implementation"
            return call
        self.session.record_applied(KNOB)
        head: Callable[[], Any] = weakref.ref(own[0])

        def attend(*args: Any, **named: Any) -> Any:
            if named.get("output_attentions") and KNOB not in self.session.declined:
                head().set_attn_implementation(was)  # alive, as it is being called
                self.session.decline_knobs([KNOB], ASKED_FOR)
            return call(*args, **named)

        return attend

    def note_step(self, step: int) -> None:
        """Decline if nothing could be switched."""
        if step == STEPS and KNOB not in self.session.applied:
            self.session.decline_knobs([KNOB], self.why)


def _has_a_switch(module: Any) -> bool:
    return hasattr(module, "set_attn_implementation") and hasattr(
        getattr(module, "config", None), "_attn_implementation"
    )
