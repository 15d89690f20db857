"""Records what a step computes from its batch to its loss, so that it can be computed again.

A *tape* holds the outermost calls between the first call of a model and the first backward pass:
calls of modules, and PyTorch's functions outside of modules. Only those that the loss depends on
are kept. Results are held weakly; of tensors that come from elsewhere, the batch above all, the
kept calls hold references as long as the tape lives.
"""

from __future__ import annotations

import copy
import dataclasses
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

DEEPEST = 6
"""levels of containers in which tensors are looked for"""
MOST_CALLS = 20_000
"""calls of a step after which it is not replayed"""


class NotReplayableError(Exception):
    """The step cannot be computed again; the message says why, for the user."""


class Slot(NamedTuple):
    """Stands for a tensor in recorded arguments."""

    number: int


class Call(NamedTuple):
    """An outermost call: its arguments with slots, the numbers of its resulting tensors, and the
    type of the autocast block that it was made in."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    results: tuple[int, ...]
    autocast: Any = None


class StepTape:
    """The tape of one step. ``start`` and ``stop`` run at step boundaries, on one thread."""

    def __init__(self, torch: Any, device: str = "cpu") -> None:
        self.torch, self.device = torch, device
        self.calls: list[Call] = []
        self.leaves: dict[int, Any] = {}
        """number -> tensor that no recorded call has made"""
        self.loss: int | None = None
        self.model: Any = None
        """the module whose call came first"""
        self.failed = ""
        self._recording = False
        self._known: dict[int, tuple[Any, int]] = {}
        self._count = self._depth = 0
        self._undo: list[Callable[[], Any]] = []

    # -- recording ----------------------------------------------------------------------------

    def start(self) -> None:
        """Record from here on.

        Raises:
            NotReplayableError: the script itself has replaced PyTorch's functions meanwhile.
        """
        from torch.nn.modules import module as modules
        from torch.overrides import TorchFunctionMode

        if self.torch._C._len_torch_function_stack():
            raise NotReplayableError("the script uses its own torch function mode")
        tape = self

        class Mode(TorchFunctionMode):
            def __torch_function__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                kwargs = kwargs or {}
                tape._contain(tape._note_backward, func, args)
                result = func(*args, **kwargs)
                if not tape._depth and tape.model is not None and tape.loss is None:
                    tape._contain(tape._record, func, args, kwargs, result)
                return result

        mode: Any = Mode()
        before = modules.register_module_forward_pre_hook(
            lambda *args: self._contain(self._enter_module, *args)
        )
        after = modules.register_module_forward_hook(
            lambda *args: self._contain(self._leave_module, *args),
            with_kwargs=True,
            always_call=True,
        )
        mode.__enter__()
        self._undo = [lambda: mode.__exit__(None, None, None), after.remove, before.remove]

    def stop(self) -> None:
        """Stop recording; also where recording failed."""
        while self._undo:
            self._undo.pop(0)()

    def note_loss(self, args: Any) -> None:
        """Note the tensor whose backward pass begins."""
        tensors = list(find_tensors(args))
        if self.loss is None and self.model is not None and len(tensors) == 1:
            self.loss = self._number_of(tensors[0])

    def _contain(self, work: Callable[..., None], *args: Any) -> None:
        """Record; a fault ends the recording, and the job goes on."""
        if self.failed or self._recording:
            return
        self._recording = True  # reading a tensor's attributes is a call of PyTorch too
        try:
            work(*args)
        except Exception as error:  # contained
            self.failed = f"{type(error).__name__}: {error}"
        finally:
            self._recording = False

    def _note_backward(self, func: Any, args: Any) -> None:
        if not self._depth and getattr(func, "__name__", "") == "backward" and args:
            self.note_loss(args[:1])

    def _enter_module(self, module: Any, args: Any) -> None:
        if not self._depth and self.model is None and self.torch.is_grad_enabled():
            self.model = module
        self._depth += 1

    def _leave_module(self, module: Any, args: Any, kwargs: Any, result: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if not self._depth and self.loss is None and self.model is not None:
            self._record(module, args, kwargs, result)

    def _record(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not self.torch.is_grad_enabled():  # inside a function of the script's own, or constant
            return
        if len(self.calls) >= MOST_CALLS:
            raise NotReplayableError(f"a step has more than {MOST_CALLS:,} calls")
        args, kwargs = self._encode(args), self._encode(kwargs)
        results = tuple(self._number_result(tensor) for tensor in find_tensors(result))
        if results:
            self.calls.append(Call(function, args, kwargs, results, self._read_autocast()))

    def _read_autocast(self) -> Any:
        if self.torch.is_autocast_enabled(self.device):
            return self.torch.get_autocast_dtype(self.device)
        return None

    def _encode(self, value: Any) -> Any:
        return map_tensors(value, lambda tensor: Slot(self._number_of(tensor)))

    def _number_of(self, tensor: Any) -> int:
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        number = self._number_result(tensor)
        self.leaves[number] = tensor
        return number

    def _number_result(self, tensor: Any) -> int:
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:  # changed in place
            return known[1]
        self._count += 1
        self._known[id(tensor)] = (weakref.ref(tensor), self._count)
        return self._count

    # -- what is kept -------------------------------------------------------------------------

    def keep_needed(self) -> None:
        """Drop all calls and tensors that the loss does not depend on.

        Raises:
            NotReplayableError: no loss was seen, or recording failed.
        """
        if self.failed:
            raise NotReplayableError(f"the step could not be recorded ({self.failed})")
        if self.loss is None or not self.calls:
            raise NotReplayableError("no call of a model before a backward pass was seen")
        needed, kept = {self.loss}, []
        for call in reversed(self.calls):
            if needed.intersection(call.results):
                kept.append(call)
                needed.update(slot.number for slot in find_slots((call.args, call.kwargs)))
        self.calls = kept[::-1]
        made = {number for call in self.calls for number in call.results}
        if self.loss not in made:
            raise NotReplayableError("the loss is not made by PyTorch's functions alone")
        self.leaves = {n: t for n, t in self.leaves.items() if n in needed}
        if unseen := next((t.grad_fn for t in self.leaves.values() if t.grad_fn), None):
            raise NotReplayableError(f"what {unseen.name()} made was not recorded with its loss")

    def modules(self) -> list[Any]:
        """The modules that the kept calls call, in their order."""
        kinds = (call.function for call in self.calls)
        return list(dict.fromkeys(f for f in kinds if isinstance(f, self.torch.nn.Module)))

    @property
    def autocast(self) -> Any:
        """The type of the autocast block that kept calls were made in; None without one."""
        return next((call.autocast for call in self.calls if call.autocast is not None), None)

    # -- computing it again -------------------------------------------------------------------

    def compute(self, leaves: dict[int, Any]) -> dict[int, Any]:
        """Compute the loss from these tensors, and return it by its number; other results are
        dropped after their last use, as in the job."""
        last = {
            slot.number: turn
            for turn, call in enumerate(self.calls)
            for slot in find_slots((call.args, call.kwargs))
        }
        values = dict(leaves)
        for turn, call in enumerate(self.calls):
            args, kwargs = _decode(call.args, values), _decode(call.kwargs, values)
            narrow = nullcontext()
            if call.autocast is not None:
                narrow = self.torch.autocast(self.device, dtype=call.autocast)
            with narrow:
                results = list(find_tensors(call.function(*args, **kwargs)))
            values.update(zip(call.results, results, strict=True))
            del args, kwargs, results
            for number in [n for n in values if last.get(n, turn) <= turn and n != self.loss]:
                del values[number]
        return values


def find_tensors(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors in a value, in a fixed order."""
    if isinstance(value, Slot):
        return
    if hasattr(value, "untyped_storage") and hasattr(value, "grad_fn"):
        yield value
    elif depth < DEEPEST:
        for part in _parts(value):
            yield from find_tensors(part, depth + 1)


def find_slots(value: Any, depth: int = 0) -> Iterator[Slot]:
    """The slots in recorded arguments."""
    if isinstance(value, Slot):
        yield value
    elif depth < DEEPEST:
        for part in _parts(value):
            yield from find_slots(part, depth + 1)


def map_tensors(value: Any, change: Callable[[Any], Any], depth: int = 0) -> Any:
    """A copy of a value with its tensors changed; what holds none is the same object."""
    if isinstance(value, Slot):
        return value
    if hasattr(value, "untyped_storage") and hasattr(value, "grad_fn"):
        return change(value)
    return _rebuild(value, lambda part: map_tensors(part, change, depth + 1), depth)


def _decode(value: Any, values: dict[int, Any], depth: int = 0) -> Any:
    if isinstance(value, Slot):
        return values[value.number]
    return _rebuild(value, lambda part: _decode(part, values, depth + 1), depth)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return list(vars(value).values())
    return []


def _rebuild(value: Any, change: Callable[[Any], Any], depth: int) -> Any:
    if depth >= DEEPEST:
        return value
    if isinstance(value, dict):
        new = {key: change(part) for key, part in value.items()}
        if all(new[key] is value[key] for key in new):
            return value
        return new if type(value) is dict else _like_mapping(value, new)
    if isinstance(value, (list, tuple)):
        parts = [change(part) for part in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return type(value)(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        twin = copy.copy(value)
        for key, part in vars(value).items():
            object.__setattr__(twin, key, change(part))
        return twin
    return value


def _like_mapping(value: Any, new: dict[Any, Any]) -> Any:
    twin = copy.copy(value)
    for key, part in new.items():
        twin[key] = part
    return twin
