"""Sets how ``tf.function`` traces, as if the script had."""

from __future__ import annotations

import inspect
from typing import Any

from . import NO_FORM, KnobSession

EAGER, RETRACING = "tf.functions_eager", "tf.reduce_retracing"
FUNCTIONS = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
INSTALLED = ("site-packages", "dist-packages")


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Change functions that the job makes from now on."""
    session.decline_knobs([knob for knob in edits if knob not in (EAGER, RETRACING)], NO_FORM)
    if RETRACING in edits:
        session.wait_for([RETRACING], "every tf.function of the job already sets how it is traced")
        session.after_import(
            [RETRACING],
            FUNCTIONS,
            "Function",
            lambda module: _reduce_retracing(session, module.Function, edits[RETRACING]),
        )
    if EAGER in edits:
        session.wait_for([EAGER], "the job does not switch traced functions off")
        session.after_import(
            [EAGER], "tensorflow", "config", lambda module: _ignore_switch(session, module.config)
        )


def _reduce_retracing(session: KnobSession, kind: Any, value: bool) -> None:
    """Make functions serve several shapes, unless the job says how they are traced."""
    signature = inspect.signature(kind.__init__)

    def make(original: Any) -> Any:
        def init(self: Any, *args: Any, **named: Any) -> None:
            try:
                given = signature.bind(self, *args, **named).arguments
            except TypeError:  # the script's own mistake, which TensorFlow reports better
                given = {"reduce_retracing": True}
            said = given.get("reduce_retracing") or given.get("input_signature") is not None
            if not said and _is_own(given.get("python_function")):
                named["reduce_retracing"] = value
                session.run_contained([RETRACING], session.record_applied, RETRACING)
            original(self, *args, **named)

        return init

    session.wrap_constructor(kind, make)


def _is_own(function: Any) -> bool:
    """Whether a function is none of an installed package."""
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    return not any(folder in file for folder in INSTALLED)


def _ignore_switch(session: KnobSession, owner: Any) -> None:
    """Trace functions although the job switches that off."""

    def make(original: Any) -> Any:
        def run_functions_eagerly(run_eagerly: Any) -> None:
            if run_eagerly:
                session.run_contained([EAGER], session.record_applied, EAGER)
            original(False)

        return run_functions_eagerly

    session.replace_function(owner, "run_functions_eagerly", make)
