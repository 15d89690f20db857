"""Copies what is saved to host memory, so that later changes to the original do not reach it.

The object is pickled and unpickled at once. Tensors are not pickled but copied storage by storage,
so that views still share memory, and strings are passed as they are: pickling the copy gives the
same bytes (except for the order within sets).
"""

from __future__ import annotations

import functools
import io
import pickle
from typing import Any

PRIORITY = -7919
"""precedes PyTorch's own and is unlikely to be taken: PyTorch cannot sort two equal ones"""
TAGS: dict[int, str] = {}
"""address of a copied storage -> the device that the file names"""


class UnknownError(Exception):
    """The object holds something that cannot be copied; the message names it."""


class Snapshot:
    """``value`` equals the object as it was; ``size_bytes`` counts its tensors, arrays and bytes.

    Raises:
        UnknownError: it holds a tensor of a kind that is not copied, or is too large.
        Exception: whatever the object's own classes raise when they are pickled.
    """

    def __init__(self, original: Any, most_bytes: int) -> None:
        self.size_bytes = 0
        self.tagged: list[int] = []
        self._most_bytes = most_bytes
        self._storages: dict[tuple[str, int], Any] = {}
        self._references: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._originals: list[Any] = []
        """kept alive while pickling, so that no address is used twice"""
        text = io.BytesIO()
        try:
            _Pickler(text, self).dump(original)
            text.seek(0)
            self.value = _Unpickler(text, self._references).load()
        except BaseException:
            self.forget_tags()
            raise
        self._originals.clear()

    def refer_to(self, value: Any) -> int | None:
        """Return the number of a value that is not pickled; None for one that is."""
        import torch

        if isinstance(value, (str, bytes, torch.Tensor)):
            number = self._numbers.get(id(value))
            if number is None:
                number = self._numbers[id(value)] = len(self._references)
                self._originals.append(value)
                if isinstance(value, bytes):
                    self._add_size(len(value))
                plain = isinstance(value, (str, bytes))
                self._references.append(value if plain else self._copy_tensor(value))
            return number
        if isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
            raise UnknownError("it saves the storage of a tensor by itself")
        return None

    def _copy_tensor(self, value: Any) -> Any:
        import torch

        kind = type(value)
        plain = kind in (torch.Tensor, torch.nn.Parameter) and not vars(value)
        if not plain or value.layout != torch.strided or value.device.type == "meta":
            raise UnknownError(f"it saves a {kind.__name__} of a kind that is not copied")
        if value.is_quantized or value.is_conj() or value.is_neg():
            raise UnknownError("it saves a quantized, conjugate or negative view of a tensor")
        storage = self._copy_storage(value.untyped_storage())
        result = torch.empty(0, dtype=value.dtype, device="cpu")
        result.set_(storage, value.storage_offset(), value.size(), value.stride())
        if kind is torch.nn.Parameter:
            return torch.nn.Parameter(result, value.requires_grad)
        return result.requires_grad_(value.requires_grad)

    def _copy_storage(self, original: Any) -> Any:
        import torch

        key = str(original.device), original.data_ptr()
        if key in self._storages:
            return self._storages[key]
        self._add_size(original.nbytes())
        on_host = original.device.type == "cpu"
        copied = original.clone() if on_host else original.cpu()
        if key[1]:  # empty storages have no address
            self._storages[key] = copied
        if not on_host and copied.data_ptr():
            TAGS[copied.data_ptr()] = torch.serialization.location_tag(original)
            self.tagged.append(copied.data_ptr())
        return copied

    def _add_size(self, number_bytes: int) -> None:
        self.size_bytes += number_bytes
        if self.size_bytes > self._most_bytes:
            raise UnknownError("there is too little memory for a second copy of what is saved")

    def forget_tags(self) -> None:
        """Forget the tags of copied storages once the file is written, as addresses are reused."""
        for address in self.tagged:
            TAGS.pop(address, None)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, snapshot: Snapshot) -> None:
        super().__init__(file, protocol=4)  # from 5 on arrays would bypass ``persistent_id``
        self.snapshot = snapshot

    def persistent_id(self, obj: Any) -> int | None:
        return self.snapshot.refer_to(obj)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, references: list[Any]) -> None:
        super().__init__(file)
        self.references = references

    def persistent_load(self, pid: int) -> Any:
        return self.references[pid]


@functools.cache
def register_tags() -> None:
    """Make saved files name the device from which a storage was copied. This cannot be undone;
    without copies it has no effect."""
    import torch

    torch.serialization.register_package(
        PRIORITY, lambda storage: TAGS.get(storage.data_ptr()), lambda *_: None
    )
