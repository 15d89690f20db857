"""The model as a whole: compiled, or laid out for convolutions.

The model is every module that is called with gradients on while no other one is: one as a rule,
several where a step calls its parts by themselves. It is changed through its class, so that it can
still be pickled.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from . import DeclinedError, KnobSession, _fused_attention
from ._recomputation import keep_activations

Call = Callable[..., Any]
CHECKPOINTING = "model.checkpointing"
DYNAMIC = "model.compile_dynamic"
COMPILE = ("model.compile", "model.compile_mode", DYNAMIC)


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Compile its forward pass, set how the script does, set its memory format, have it keep its
    activations, or attend in another form."""
    edits = dict(edits)
    if form := edits.pop(_fused_attention.KNOB, None):
        _fused_attention.fuse_attention(hand, form, wrap_outermost)
    if DYNAMIC in edits and "model.compile" not in edits:
        _for_any_length(hand, edits.pop(DYNAMIC))
    if edits.pop(CHECKPOINTING, True) is False:
        keep_activations(hand, CHECKPOINTING)
    if not edits:
        return
    known = {*COMPILE, "model.memory_format"}
    if unknown := [knob for knob in edits if knob not in known]:
        raise DeclinedError(f"{', '.join(unknown)}: it needs another line in the script")
    wrap_outermost(hand, edits, functools.partial(_change_model, hand, edits))


def _for_any_length(hand: KnobSession, dynamic: bool) -> None:
    """What the script has compiled from now on serves every length, or one each."""
    import torch

    def make(original: Call) -> Call:
        def compiled(*args: Any, **kwargs: Any) -> Any:
            hand.record_applied(DYNAMIC)
            return original(*args, **{**kwargs, "dynamic": dynamic})

        return compiled

    hand.replace_function(torch, "compile", make)


def wrap_outermost(
    hand: KnobSession, edits: dict[str, Any], wrap: Callable[[Any, Call], Call]
) -> None:
    """Wrap the calls of the model, once it is seen: ``wrap(model, call)`` gives the new call. After
    the first step no more is looked for. A ``wrap`` that fails leaves the model as it is."""
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    known: set[int] = set()
    calls: dict[int, tuple[Callable[[], Any], Call]] = {}
    """weakly: a script that drops its model wants the memory back"""
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
        while original in ours:  # of this class, or of one that it inherits from
            original = original.__wrapped__
        number, model = id(module), weakref.ref(module, lambda _: calls.pop(number, None))
        calls[number] = (
            model,
            wrap(module, lambda *args, **named: original(model(), *args, **named)),
        )
        if kind not in kinds:
            kinds.add(kind)
            hand.replace_function(kind, "__call__", make)
            ours.add(kind.__call__)

    def before(module: Any, args: Any) -> None:
        if id(module) in known or not torch.is_grad_enabled():
            return
        known.update(id(part) for part in module.modules())
        if any(p.requires_grad for p in module.parameters()):
            hand.run_contained(edits, adopt, module)

    # where the script compiles, PyTorch says of such a hook that it may be called twice: it may
    warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
    handle = register_module_forward_pre_hook(before)
    hand.undo.append(handle.remove)
    hand.after_steps(lambda _: handle.remove())


def _change_model(hand: KnobSession, edits: dict[str, Any], model: Any, call: Call) -> Call:
    import torch

    asked = [knob for knob in edits if knob in COMPILE]
    if asked and _is_compiled(model):
        hand.decline_knobs(asked, "it is compiled already")
    elif asked and (kind := _uncompilable_device(model)):
        hand.decline_knobs(asked, f"PyTorch's compiler makes no code for the device {kind!r}")
    elif asked:
        import torch._dynamo

        torch._dynamo.config.suppress_errors = True  # what cannot be compiled runs as it was
        _compile_in_place(model, mode=edits.get("model.compile_mode"), dynamic=edits.get(DYNAMIC))
        hand.record_applied(*asked)
    if edits.get("model.memory_format") != "channels_last":
        return call
    model.to(memory_format=torch.channels_last)
    hand.record_applied("model.memory_format")

    def laid_out(*args: Any, **kwargs: Any) -> Any:
        return call(*map(_to_channels_last, args), **kwargs)

    return laid_out


def _compile_in_place(model: Any, **how: Any) -> None:
    """In place: its calls are compiled from now on. The compiler passes over code of PyTorch's own
    that nothing it looks at calls, as that of a bare ``nn.Sequential`` (until PyTorch 2.13): such a
    model gets a frame around it, as ``torch.compile(model)`` makes one."""
    import torch
    from torch._dynamo import external_utils, trace_rules

    passed_over = getattr(trace_rules, "check", None)
    if passed_over is None or not passed_over(model.forward):
        model.compile(**how)
        return
    framed = external_utils.wrap_inline(model._call_impl)
    model._compiled_call_impl = torch.compile(framed, **how)


def _is_compiled(model: Any) -> bool:
    """Whether the script has had it, or a part of it, compiled."""
    return any(
        hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None
        for part in model.modules()
    )


def _uncompilable_device(model: Any) -> str:
    """The device of the model, where the compiler has nothing for its kind: then its code would run
    as it did, or slower, in many traced pieces."""
    from torch._inductor.codegen import common

    register = getattr(common, "init_backend_registration", None)
    if register is None:  # an older PyTorch, which cannot be asked
        return ""
    register()
    kinds = {one.device.type for one in model.parameters()} - {"meta"}
    return next((kind for kind in kinds if common.get_scheduling_for_device(kind) is None), "")


def _to_channels_last(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value
