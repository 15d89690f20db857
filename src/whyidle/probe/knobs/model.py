"""Compiles the model, and finds it for other knobs.

The model is every outermost module that is called with gradients enabled: usually one, several if a
step calls parts separately. It is changed through its class, so that it can still be pickled.
"""

from __future__ import annotations

import functools
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from . import NO_FORM, DeclinedError, KnobSession

Call = Callable[..., Any]
DYNAMIC = "model.compile_dynamic"
COMPILE = ("model.compile", DYNAMIC)


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Compile the model, or change how the script compiles it."""
    if "torch" not in sys.modules:
        raise DeclinedError(NO_FORM)
    edits = dict(edits)
    if DYNAMIC in edits and "model.compile" not in edits:
        _for_any_length(session, edits.pop(DYNAMIC))
    session.decline_knobs([knob for knob in edits if knob not in COMPILE], NO_FORM)
    if edits := {knob: to for knob, to in edits.items() if knob in COMPILE}:
        wrap_outermost(session, edits, functools.partial(_compile_model, session, edits))


def _for_any_length(session: KnobSession, dynamic: bool) -> None:
    """Set ``dynamic`` for everything that the script compiles from now on."""
    import torch

    def make(original: Call) -> Call:
        def compile_model(*args: Any, **kwargs: Any) -> Any:
            session.record_applied(DYNAMIC)
            return original(*args, **{**kwargs, "dynamic": dynamic})

        return compile_model

    session.replace_function(torch, "compile", make)


def wrap_outermost(
    session: KnobSession, edits: dict[str, Any], wrap: Callable[[Any, Call], Call]
) -> None:
    """Wrap the calls of the model once it is found: ``wrap(model, call)`` returns the new call. The
    search ends after the first step. A ``wrap`` that fails leaves the model unchanged."""
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    known: set[int] = set()
    calls: dict[int, tuple[Callable[[], Any], Call]] = {}
    """by id, with weak references, so that a dropped model is freed"""
    kinds: set[type] = set()
    ours: set[Any] = set()

    def make(original: Call) -> Call:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            model, wrapped = calls.get(id(self), (bool, None))
            if wrapped is None or model() is not self:
                return original(self, *args, **kwargs)
            return wrapped(*args, **kwargs)

        return call

    def adopt(module: Any) -> None:
        kind = type(module)
        original: Any = kind.__call__
        while original in ours:  # wrapped in this class or in a base class
            original = original.__wrapped__
        number, model = id(module), weakref.ref(module, lambda _: calls.pop(number, None))
        calls[number] = (
            model,
            wrap(module, lambda *args, **named: original(model(), *args, **named)),
        )
        if kind not in kinds:
            kinds.add(kind)
            session.replace_function(kind, "__call__", make)
            ours.add(kind.__call__)

    def before_forward(module: Any, args: Any) -> None:
        if id(module) in known or not torch.is_grad_enabled():
            return
        known.update(id(part) for part in module.modules())
        if any(p.requires_grad for p in module.parameters()):
            session.run_contained(edits, adopt, module)

    # where the script compiles, PyTorch warns that such a hook may be called twice: harmless here
    warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
    handle = register_module_forward_pre_hook(before_forward)
    session.undo.append(handle.remove)
    session.after_steps(lambda _: handle.remove())


def _compile_model(session: KnobSession, edits: dict[str, Any], model: Any, call: Call) -> Call:
    if any(
        hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None
        for part in model.modules()
    ):
        session.decline_knobs(edits, "it is compiled already")
    elif kind := _uncompilable_device(model):
        session.decline_knobs(edits, f"PyTorch's compiler does not support the device {kind!r}")
    else:
        import torch._dynamo

        torch._dynamo.config.suppress_errors = True  # what cannot be compiled runs uncompiled
        _compile_in_place(model, dynamic=edits.get(DYNAMIC))
        session.record_applied(*edits)
    return call


def _compile_in_place(model: Any, dynamic: bool | None) -> None:
    """Compile the model's calls in place. The compiler skips PyTorch's own code unless code that it
    compiles calls it, as for a bare ``nn.Sequential`` (until PyTorch 2.13): such a model gets a
    frame around it, as in ``torch.compile(model)``."""
    import torch
    from torch._dynamo import external_utils, trace_rules

    passed_over = getattr(trace_rules, "check", None)
    if passed_over is None or not passed_over(model.forward):
        model.compile(dynamic=dynamic)
        return
    framed = external_utils.wrap_inline(model._call_impl)
    model._compiled_call_impl = torch.compile(framed, dynamic=dynamic)


def _uncompilable_device(model: Any) -> str:
    """The model's device type if the compiler has no backend for it: the model would run as before,
    or slower, in many traced pieces. Empty otherwise."""
    from torch._inductor.codegen import common

    register = getattr(common, "init_backend_registration", None)
    if register is None:  # an older PyTorch, which has no such list
        return ""
    register()
    kinds = {parameter.device.type for parameter in model.parameters()} - {"meta"}
    return next((kind for kind in kinds if common.get_scheduling_for_device(kind) is None), "")
