"""Layers that could take the place of a model's own, and switches of the whole model, to be timed
in the place of the original for a few passes that are computed again.

A swap is made and undone in one ``with``; the model's own modules and parameters are the same
objects before and after it. New layers have weights of their own: they show time, not accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

from ..fused_attention import AttentionFuser

GROUPS = 8
"""of grouped convolutions, as in ResNeXt's smaller variants"""


class Swap(NamedTuple):
    """One change: ``kind`` names it, ``modules`` are replaced, ``keeps`` says whether results are
    the same apart from rounding. ``apply`` makes the change while it is open. ``plain`` is open in
    the passes without it, where the change costs something by itself. ``is_used`` tells after a
    pass whether it changed anything."""

    kind: str
    modules: list[str]
    keeps: bool
    apply: Callable[[], AbstractContextManager[None]]
    plain: Callable[[], AbstractContextManager[None]] = nullcontext
    is_used: Callable[[], bool] = lambda: True


def find_swaps(
    torch: Any, modules: list[Any], names: dict[int, str], device: Any, *, narrow: bool = False
) -> list[Swap]:
    """List the swaps of a model: free switches first, then layers of equal kind together.
    ``narrow``: it computes under autocast already."""
    swaps = []
    convolutions = [m for m in modules if isinstance(m, torch.nn.Conv2d)]
    if convolutions and any(not _is_channels_last(torch, m.weight) for m in convolutions):
        apply_change = lambda: _channels_last(torch, modules)  # noqa: E731
        swaps.append(Swap("channels_last", [], True, apply_change))
    if not narrow:
        apply_change = lambda: torch.autocast(device.type, dtype=torch.bfloat16)  # noqa: E731
        swaps.append(Swap("bfloat16", [], False, apply_change))
    swaps.append(_fused_attention(torch))
    for alike in _group_convolutions(convolutions):
        for kind, make in (("separable", _make_separable), ("grouped", _make_groups)):
            replaced = [(module, layer) for module in alike if (layer := make(torch, module))]
            if replaced:
                apply_change = _replace_layers(modules, replaced)
                swaps.append(Swap(kind, [names[id(m)] for m, _ in replaced], False, apply_change))
    return swaps


def _fused_attention(torch: Any) -> Swap:
    from torch.overrides import BaseTorchFunctionMode

    fuser, idle = AttentionFuser(torch), BaseTorchFunctionMode()
    return Swap("attention", [], True, fuser.fuse, lambda: idle, lambda: fuser.used > 0)


def _group_convolutions(convolutions: list[Any]) -> list[list[Any]]:
    """Convolutions of equal channels, kernel and stride, which one decision would change."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for module in convolutions:
        if module.groups == 1 and max(module.kernel_size) > 1 and type(module).__name__ == "Conv2d":
            key = (module.in_channels, module.out_channels, module.kernel_size, module.stride)
            groups.setdefault(key, []).append(module)
    return list(groups.values())


def _make_separable(torch: Any, module: Any) -> Any:
    """A depthwise convolution and a pointwise one (Howard et al., "MobileNets", 2017)."""
    if module.in_channels < 2:
        return None
    like, at = _options(module)
    channels = module.in_channels
    depth = torch.nn.Conv2d(channels, channels, **like, groups=channels, bias=False, **at)
    point = torch.nn.Conv2d(channels, module.out_channels, 1, bias=module.bias is not None, **at)
    return torch.nn.Sequential(depth, point)


def _make_groups(torch: Any, module: Any) -> Any:
    """A convolution in groups (Xie et al., "ResNeXt", 2017)."""
    if module.in_channels % GROUPS or module.out_channels % GROUPS or module.in_channels == GROUPS:
        return None
    like, at = _options(module)
    own, bias = (module.in_channels, module.out_channels), module.bias is not None
    return torch.nn.Conv2d(*own, **like, groups=GROUPS, bias=bias, **at)


def _options(module: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    names = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
    at = {"device": module.weight.device, "dtype": module.weight.dtype}
    return {name: getattr(module, name) for name in names}, at


def _replace_layers(modules: list[Any], replaced: list[tuple[Any, Any]]) -> Any:
    new = {id(module): layer for module, layer in replaced}

    @contextmanager
    def apply_change() -> Iterator[None]:
        before = []
        for parent in modules:
            for name, child in parent.named_children():
                if id(child) in new:
                    before.append((parent, name, child))
                    setattr(parent, name, new[id(child)])
        try:
            yield
        finally:
            for parent, name, child in before:
                setattr(parent, name, child)

    return apply_change


def _is_channels_last(torch: Any, weight: Any) -> bool:
    return bool(weight.is_contiguous(memory_format=torch.channels_last))


@contextmanager
def _channels_last(torch: Any, modules: list[Any]) -> Iterator[None]:
    weights = [p for m in modules for p in m.parameters(recurse=False) if p.dim() == 4]
    before = [(weight, weight.data) for weight in weights]
    for weight in weights:
        weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    try:
        yield
    finally:
        for weight, data in before:
            weight.data = data
