"""What is saved, such that a forked copy of the process can save it as it is now.

Host memory of its own is the copy's as it was; memory that processes share is not, and what lies on
a device cannot be read by a copy. Both are copied first. Tensors that share storage share it in
the result, and the file says which device they were on, as it would have.
"""

from __future__ import annotations

import collections
import copy
from typing import Any

PLAIN = (type(None), bool, int, float, complex, str, bytes)
MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)


class UnknownError(Exception):
    """It holds what cannot be copied; the message says what."""


class State:
    """``value`` is to be saved; ``size`` is what its tensors take, in bytes."""

    def __init__(self) -> None:

        self.value: Any = None
        self.size = 0
        self.device = _device_in_use()
        self.copies: dict[int, Any] = {}
        """storages by where the old one began"""
        self.kept: list[Any] = []
        """they live until it is written: an address is not used again"""
        self.tags: dict[int, str] = {}
        """where the copied ones were"""

    def taken(self, value: Any) -> Any:
        """The value, or a copy of it where it must be one."""
        import torch

        kind = type(value)
        if kind in (torch.Tensor, torch.nn.Parameter):
            return self._tensor(value)
        if kind in MAPPINGS:
            return self._mapping(value)
        if kind in (list, tuple):
            listed = [self.taken(one) for one in value]
            same = all(a is b for a, b in zip(listed, value, strict=True))
            return value if same else kind(listed)
        if isinstance(value, torch.nn.Module):
            return self._module(value)
        if self.device and kind not in PLAIN and not _harmless(value):
            raise UnknownError(f"it saves a {kind.__name__}, which may hold memory of a device")
        return value

    def _mapping(self, value: Any) -> Any:
        taken = {name: self.taken(one) for name, one in value.items()}
        if all(taken[name] is value[name] for name in value):
            return value
        result = copy.copy(value)  # keeps its order, default, and the attributes of a state dict
        result.update(taken)
        return result

    def _module(self, value: Any) -> Any:
        for tensor in (*value.parameters(), *value.buffers()):
            if self._tensor(tensor) is not tensor:
                raise UnknownError("it saves a whole module that lies on a device or is shared")
        return value

    def _tensor(self, value: Any) -> Any:
        import torch

        self.size += value.numel() * value.element_size()
        host = value.device.type == "cpu"
        if value.layout != torch.strided or value.is_quantized or value.grad_fn is not None:
            if host:
                return value
            raise UnknownError("it saves a tensor of a kind that is not copied")
        if host and not value.is_shared():
            return value
        old = value.untyped_storage()
        new = self.copies.get(old.data_ptr())
        if new is None:
            storage: Any = torch.UntypedStorage
            new = storage(old.nbytes())
            new.copy_(old)
            self.copies[old.data_ptr()] = new
            self.kept.append(old)
            self.tags[new.data_ptr()] = torch.serialization.location_tag(old)
        result = torch.empty(0, dtype=value.dtype)
        result.set_(new, value.storage_offset(), value.size(), value.stride())
        if type(value) is torch.nn.Parameter:
            return torch.nn.Parameter(result, value.requires_grad)
        return result.requires_grad_(value.requires_grad)

    def as_it_was(self) -> None:
        """In the process that saves: have the file say where the copied storages were."""
        import torch

        if self.tags:
            torch.serialization.register_package(
                -1, lambda storage: self.tags.get(storage.data_ptr()), lambda *_: None
            )


def state_of(value: Any) -> State:
    """What to save instead of ``value``.

    Raises:
        UnknownError: a copy of the process could not save it.
    """
    state = State()
    state.value = state.taken(value)
    return state


def _device_in_use() -> bool:
    import torch

    cuda: Any = torch.cuda
    others = (getattr(torch, name, None) for name in ("xpu", "mps", "npu", "hpu"))
    return bool(cuda.is_initialized()) or any(one and one.is_available() for one in others)


def _harmless(value: Any) -> bool:
    """Whether such a value never holds tensors."""
    home = type(value).__module__.partition(".")[0]
    if home in ("numpy", "datetime", "pathlib", "enum", "argparse", "decimal", "uuid"):
        return home != "argparse" or all(type(one) in PLAIN for one in vars(value).values())
    return type(value).__name__ in ("device", "dtype", "Size") and home == "torch"
