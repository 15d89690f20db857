"""One operator on the emulated device: computed on the host at once, priced, enqueued."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from emulator.device import copies, devices, fences
from emulator.device.clock import now
from emulator.device.cost import CONVOLUTIONS, prices
from emulator.device.device import Device
from emulator.device.kernels import kernel_name, layout_name
from emulator.device.recurrent import CELLS
from emulator.device.searching import tuned
from emulator.device.tensor import EmulatedTensor

aten = torch.ops.aten
FREE = {
    aten._unsafe_view,
    aten.empty_like,
    aten.new_empty,
    aten.new_empty_strided,
    aten.lift_fresh,
}
"""operators without a kernel, besides views"""
READS = {
    aten.nonzero,
    aten.masked_select,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
    aten.equal,
}
"""operators whose result has a shape, or is a value, that the host must learn"""
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}


class Plan(NamedTuple):
    """What is known of an operator from its schema."""

    packet: Any
    view: bool
    """its results look at its first argument's memory"""
    free: bool
    special: Callable[..., Any] | None
    compute: Callable[..., Any]
    """gives the numbers, on the host"""


SPECIAL: dict[Any, Callable[..., Any]] = {
    aten.copy_: copies.copy_,
    aten._to_copy: copies.to_copy,
    aten._local_scalar_dense: copies.scalar,
}
_plans: dict[Any, Plan] = {}


def _plan(func: Any) -> Plan:
    packet = func._overloadpacket
    aliases = [each.alias_info for each in func._schema.returns]
    view = packet is aten._unsafe_view or any(a is not None and not a.is_write for a in aliases)
    compute = CELLS.get(packet, func)
    made = Plan(packet, view, view or packet in FREE, SPECIAL.get(packet), compute)
    _plans[func] = made
    return made


class Unwrapped:
    """The arguments of one call, with the tensors underneath."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.wrappers: list[EmulatedTensor] = []
        self.foreign: list[torch.Tensor] = []
        self.args = [self._unwrap(each) for each in args]
        self.kwargs = {name: self._unwrap(each) for name, each in kwargs.items()}
        asked = kwargs.get("device")
        self.index: int | None = self.wrappers[0].get_device() if self.wrappers else None
        """where results live; None: on the host"""
        if asked is not None:
            self.index = where(asked)
            self.kwargs["device"] = torch.device("cpu")
        if self.kwargs.get("pin_memory"):
            self.kwargs["pin_memory"] = False

    def _unwrap(self, value: Any) -> Any:
        if isinstance(value, EmulatedTensor):
            self.wrappers.append(value)
            return value.numbers
        if isinstance(value, torch.Tensor):
            self.foreign.append(value)
        elif isinstance(value, (list, tuple)):
            return type(value)([self._unwrap(each) for each in value])
        return value

    def check(self, packet: Any) -> None:
        """As any device: tensors of the host are welcome as numbers and as indices only.

        Raises:
            RuntimeError: another one, or one of another device.
        """
        indices = {wrapper.get_device() for wrapper in self.wrappers}
        strangers = [] if packet in INDEXING else [each for each in self.foreign if each.dim()]
        if len(indices) > 1 or strangers:
            names = [f"emulated:{index}" for index in sorted(indices)] + ["cpu"] * bool(strangers)
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{names[0]} and {names[-1]}!"
            )


def where(asked: Any) -> int | None:
    """The index of a device that was asked for; None: the host."""
    device = torch.device(asked)
    if device.type != "emulated":
        return None
    return devices.current() if device.index is None else device.index


def run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute one operator; what ``EmulatedTensor.__torch_dispatch__`` calls."""
    begun = now()
    plan = _plans.get(func) or _plan(func)
    if fences.raised:
        _cross(args)
    if plan.special is not None and (done := plan.special(func, args, kwargs, begun)) is not None:
        return done[0]
    given = Unwrapped(args, kwargs)
    given.check(plan.packet)
    out = _computed(plan.compute, given)
    results = list(out) if isinstance(out, (list, tuple)) else [out]
    wrapped = _wrap(results, given, plan)
    if not plan.free and given.wrappers:
        device = devices.device(given.wrappers[0].get_device())
        launch(device, plan.packet, [*given.args, *given.kwargs.values()], results, begun)
        if plan.packet in READS or (plan.packet in INDEXING and _masked(given.args[1])):
            device.synchronize(device.current, str(plan.packet))
    return type(out)(wrapped) if isinstance(out, (list, tuple)) else wrapped[0]


def _cross(values: Sequence[Any]) -> None:
    for each in values:
        if isinstance(each, EmulatedTensor):
            fences.cross([each.block], devices.device(each.get_device()))
        elif isinstance(each, (list, tuple)):
            _cross(each)


def _computed(func: Any, given: Unwrapped) -> Any:
    """What the host computes is no part of a profile of the device."""
    if not devices.heard():
        return func(*given.args, **given.kwargs)
    torch._C._autograd._enable_record_function(False)
    try:
        return func(*given.args, **given.kwargs)
    finally:
        torch._C._autograd._enable_record_function(True)


def _masked(indices: Sequence[torch.Tensor | None]) -> bool:
    return any(each is not None and each.dtype is torch.bool for each in indices)


def _wrap(results: list[Any], given: Unwrapped, plan: Plan) -> list[Any]:
    return [_wrapped(each, given, plan) for each in results]


def _wrapped(result: Any, given: Unwrapped, plan: Plan) -> Any:
    if not isinstance(result, torch.Tensor):
        return result
    for wrapper in given.wrappers:
        if wrapper.numbers is result:
            if wrapper.shape != result.shape:
                raise NotImplementedError(f"{plan.packet} changes a shape in place")
            return wrapper
    if given.index is None or any(each is result for each in given.foreign):
        return result
    return EmulatedTensor(result, given.index, given.wrappers[0].block if plan.view else None)


def launch(
    device: Device, packet: Any, args: Sequence[Any], outs: Sequence[Any], begun: int
) -> None:
    """Price and enqueue what was computed."""
    for price in prices(device.config, packet, args, outs):
        name = ""
        if device.record.heard is not None:
            turns = price.turns
            name = layout_name(args) if turns else kernel_name(packet, price.precision, args)
        cost = price.cost
        if price.precision and packet in CONVOLUTIONS:
            shapes = tuple(each.shape for each in args if isinstance(each, torch.Tensor))
            again = partial(device.launch, cost, begun, name=name)
            cost = tuned(device, (packet, shapes), cost, again)
        device.launch(cost, begun, name=name)
