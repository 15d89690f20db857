"""One kernel, or few, for all parameters: the optimizer's own switches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from . import DeclinedError, KnobSession, _learning_rate

SWITCHES = ("fused", "foreach")
GROUPS = "param_groups"


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Have every optimizer of PyTorch's that knows the switch made with it, and without the other;
    one that refuses is made as it was."""
    import torch

    if edits.get(_learning_rate.KNOB):
        try:
            _learning_rate.turn(hand)
        except DeclinedError as reason:
            hand.decline_knobs([_learning_rate.KNOB], str(reason))
    edits = {knob: value for knob, value in edits.items() if knob != _learning_rate.KNOB}
    if not edits:
        return
    for name in dir(torch.optim):
        kind = getattr(torch.optim, name)
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer):
            known = inspect.signature(kind.__init__).parameters
            own = {k: v for k, v in edits.items() if k.partition(".")[2] in known}
            if own and "__init__" in vars(kind):
                hand.replace_making(kind, _wrap_init(hand, own, kind))
    _watch_for_others(hand, edits)


def _watch_for_others(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Say so where what steps has no such switch."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    seen: set[type] = set()

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if type(optimizer) not in seen:  # a hook must not take itself off while hooks are called
            seen.add(type(optimizer))
            hand.run_contained(edits, look, optimizer)

    def look(optimizer: Any) -> None:
        names = [knob.partition(".")[2] for knob in edits]
        if not any(name in group for group in optimizer.param_groups for name in names):
            kind = type(optimizer)
            hand.decline_knobs(
                edits, f"{kind.__module__}.{kind.__qualname__} has no switch {' or '.join(names)}"
            )

    hand.undo.append(register_optimizer_step_post_hook(after).remove)


def _wrap_init(
    hand: KnobSession, edits: dict[str, Any], kind: type
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
            switches = {knob.partition(".")[2]: value for knob, value in edits.items()}
            others = {name: None for name in SWITCHES if name in kwargs and name not in switches}
            params = _list_parameters(params)
            if "fused" in switches and (why := hand.run_contained(edits, _explain_unfit, params)):
                hand.decline_knobs(edits, f"{kind.__name__} refuses: {why}")
                return original(self, params, *args, **kwargs)
            try:
                result = original(self, params, *args, **{**kwargs, **others, **switches})
            except (RuntimeError, ValueError, TypeError) as error:
                hand.decline_knobs(edits, f"{kind.__name__} refuses: {error}")
                return original(self, params, *args, **kwargs)
            hand.record_applied(*edits)
            hand.run_contained(edits, _keep_switch, hand, edits, self)
            return result

        return init

    return make


def _keep_switch(hand: KnobSession, edits: dict[str, Any], optimizer: Any) -> None:
    """Keep it so where a state is loaded, which brings the switches of whoever saved it; and not
    where gradients turn out to be sparse, which no fused kernel takes."""
    switches = {name: edits.get(f"optimizer.{name}") for name in SWITCHES}
    line = hand.line
    looked: list[Any] = []  # a hook must not take itself off while hooks are called

    def loaded(state: Any) -> Any:
        groups = [group | {name: switches[name] for name in SWITCHES} for group in state[GROUPS]]
        return {**state, GROUPS: groups}

    def look(groups: Any) -> None:
        looked.append(True)
        grads = [p.grad for group in groups for p in group["params"] if p.grad is not None]
        if any(grad.is_sparse for grad in grads):
            for group in groups:
                group["fused"] = False
            hand.decline_knobs(edits, "its gradients are sparse", line)

    def load(own: Any, state: Any) -> Any:
        return hand.run_contained(edits, loaded, state)

    def step(own: Any, args: Any, kwargs: Any) -> None:
        if not looked:
            hand.run_contained(edits, look, own.param_groups)

    optimizer.register_load_state_dict_pre_hook(load)
    if switches["fused"]:
        optimizer.register_step_pre_hook(step)


def _list_parameters(params: Any) -> Any:
    """An iterator of parameters can be read only once, and may have to be read twice."""
    if not hasattr(params, "__next__"):
        return params
    return [
        {**p, "params": _list_parameters(p["params"])} if isinstance(p, dict) else p for p in params
    ]


def _explain_unfit(params: Any) -> str:
    """What PyTorch will say of these parameters at the first fused step, where it is too late;
    empty where they are as they must be."""
    from torch.utils import _foreach_utils

    ask = getattr(_foreach_utils, "_get_fused_kernels_supported_devices", lambda: ["cuda"])
    devices = ask()
    for param in params:
        held = param.get("params", ()) if isinstance(param, dict) else [param]
        for one in held if isinstance(held, (list, tuple)) else [held]:
            tensor = one[1] if isinstance(one, tuple) else one
            if not tensor.is_floating_point():
                return f"a parameter is {tensor.dtype}"
            if tensor.device.type not in devices:
                return f"a parameter lies on {tensor.device.type}"
    return ""
