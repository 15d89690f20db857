"""Sets the optimizer's own switches for fused and for-each updates."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from . import NO_FORM, KnobSession

SWITCHES = ("fused", "foreach")
GROUPS = "param_groups"


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Create every optimizer of PyTorch that has the switch with it, and without the other one. An
    optimizer that refuses is created as the script asked."""
    import torch

    session.decline_knobs(
        [knob for knob in edits if knob.partition(".")[2] not in SWITCHES], NO_FORM
    )
    edits = {knob: to for knob, to in edits.items() if knob.partition(".")[2] in SWITCHES}
    if not edits:
        return
    for name in dir(torch.optim):
        kind = getattr(torch.optim, name)
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer):
            takes = inspect.signature(kind.__init__).parameters
            own = {k: v for k, v in edits.items() if k.partition(".")[2] in takes}
            if own and "__init__" in vars(kind):
                session.wrap_constructor(kind, functools.partial(_wrap_init, session, own, kind))
    names = " or ".join(knob.partition(".")[2] for knob in edits)
    session.wait_for(edits, f"the job makes no optimizer of PyTorch with the switch {names}")


def _wrap_init(
    session: KnobSession, edits: dict[str, Any], kind: type, original: Callable[..., Any]
) -> Callable[..., Any]:
    def init(self: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        switches = {knob.partition(".")[2]: value for knob, value in edits.items()}
        others = {name: None for name in SWITCHES if name in kwargs and name not in switches}
        params = _list_parameters(params)
        if "fused" in switches and (why := session.run_contained(edits, _explain_unfit, params)):
            session.decline_knobs(edits, f"{kind.__name__} refuses: {why}")
            return original(self, params, *args, **kwargs)
        try:
            result = original(self, params, *args, **{**kwargs, **others, **switches})
        except (RuntimeError, ValueError, TypeError) as error:
            session.decline_knobs(edits, f"{kind.__name__} refuses: {error}")
            return original(self, params, *args, **kwargs)
        session.record_applied(*edits)
        session.run_contained(edits, _keep_switch, session, edits, self)
        return result

    return init


def _keep_switch(session: KnobSession, edits: dict[str, Any], optimizer: Any) -> None:
    """Set the switches again after loading a state, which brings those of the saved optimizer, and
    turn them off if gradients are sparse, which fused kernels do not support."""
    switches = {name: edits.get(f"optimizer.{name}") for name in SWITCHES}
    line = session.line
    looked: list[Any] = []  # a hook must not remove itself while hooks are called

    def set_switches(state: Any) -> Any:
        groups = [group | {name: switches[name] for name in SWITCHES} for group in state[GROUPS]]
        return {**state, GROUPS: groups}

    def check_gradients(groups: Any) -> None:
        looked.append(True)
        grads = [p.grad for group in groups for p in group["params"] if p.grad is not None]
        if any(grad.is_sparse for grad in grads):
            for group in groups:
                group["fused"] = False
            session.decline_knobs(edits, "its gradients are sparse", line)

    def load(own: Any, state: Any) -> Any:
        return session.run_contained(edits, set_switches, state)

    def step(own: Any, args: Any, kwargs: Any) -> None:
        if not looked:
            session.run_contained(edits, check_gradients, own.param_groups)

    optimizer.register_load_state_dict_pre_hook(load)
    if switches["fused"]:
        optimizer.register_step_pre_hook(step)


def _list_parameters(params: Any) -> Any:
    """Turn an iterator of parameters into a list, as it may have to be read twice."""
    if not hasattr(params, "__next__"):
        return params
    return [
        {**p, "params": _list_parameters(p["params"])} if isinstance(p, dict) else p for p in params
    ]


def _explain_unfit(params: Any) -> str:
    """Why the first fused step of these parameters would fail; empty if it would not."""
    from torch.utils import _foreach_utils

    ask = getattr(_foreach_utils, "_get_fused_kernels_supported_devices", lambda: ["cuda"])
    devices = ask()
    for param in params:
        held = param.get("params", ()) if isinstance(param, dict) else [param]
        for entry in held if isinstance(held, (list, tuple)) else [held]:
            tensor = entry[1] if isinstance(entry, tuple) else entry
            if not tensor.is_floating_point():
                return f"a parameter is {tensor.dtype}"
            if tensor.device.type not in devices:
                return f"a parameter lies on {tensor.device.type}"
    return ""
