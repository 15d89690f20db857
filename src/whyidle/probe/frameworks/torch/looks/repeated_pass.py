"""One micro-batch computed again at a step boundary, for ``--look model``, and the job as it was
afterwards: gradients, buffers, attributes of modules and random states."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import accelerator
from .memory_look import device_of
from .step_tape import NotReplayableError, StepTape

MOST_S = 60.0
"""time that no pass may be expected to outlast, s"""
FRESH = 1 << 26
"""bytes of memory whose first use is timed; the C library always asks the system for so many"""
MOVING = ("SyncBatchNorm",)
"""modules that exchange with other ranks, which a pass of one rank alone would block"""
SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DataParallel")
HELD = ("_buffers", "_non_persistent_buffers_set")


class RepeatedPass:
    """The measurements, at a step boundary."""

    def __init__(self, torch: Any, tape: StepTape, optimizer: Any) -> None:
        self.torch, self.tape = torch, tape
        self.device = device_of(optimizer)
        self.until = time.monotonic() + MOST_S
        self.pace = 0.0
        """seconds a pass"""
        self.found: dict[str, Any] = {"state": "measured", "device": self.device.type}
        self.fault_s = 0.0
        if self.device.type == "cpu":
            self.fault_s = min(self._time_fault() for _ in range(3))
        self.modules: list[Any] = []
        self.names: dict[int, str] = {}
        self.parameters: list[Any] = []

    def _has_time(self, passes: float) -> bool:
        """Whether there is time for so many passes of the job's own batch."""
        return time.monotonic() + passes * self.pace < self.until

    def _list_modules(self, outermost: list[Any]) -> None:
        for number, module in enumerate(outermost):
            prefix = "" if len(outermost) == 1 or number == 0 else f"{type(module).__name__}."
            for name, part in module.named_modules():
                if id(part) not in self.names:
                    self.names[id(part)] = (prefix + name).rstrip(".") or type(module).__name__
                    self.modules.append(part)
        self.parameters = [
            p for module in self.modules for p in module.parameters(recurse=False)
            if p.requires_grad
        ]  # fmt: skip
        self.parameters = list({id(p): p for p in self.parameters}.values())

    # -- the batch ----------------------------------------------------------------------------

    def _batch_leaves(self) -> dict[int, Any]:
        """The tensors of the batch: those that are no parameters or buffers and share the first
        one's first dimension."""
        own = {id(t) for m in self.modules for t in (*m.parameters(False), *m.buffers(False))}
        others = {n: t for n, t in self.tape.leaves.items() if id(t) not in own and t.dim()}
        if not others:
            return {}
        size = others[min(others)].shape[0]
        return {n: t for n, t in others.items() if t.shape[0] == size}

    def _batch_size(self) -> int | None:
        """Samples of the batch; None where a single input may have another dimension first."""
        leaves = list(self._batch_leaves().values())
        if not leaves:
            raise NotReplayableError("the model's input has no dimension of samples")
        return int(leaves[0].shape[0]) if len(leaves) > 1 else None

    def _fresh_leaves(self) -> dict[int, Any]:
        """The tape's inputs, with those of the batch as tensors of our own."""
        batch = self._batch_leaves().items()
        own = {n: t.detach().requires_grad_(t.requires_grad) for n, t in batch}
        return self.tape.leaves | own

    # -- passes -------------------------------------------------------------------------------

    def _pass(self, leaves: dict[int, Any]) -> list[Any]:
        """One forward and backward pass; returns the gradients."""
        values = self.tape.compute(leaves)
        loss = values[self.tape.loss or 0]
        gradients = self.torch.autograd.grad(
            loss.sum() if loss.dim() else loss, self.parameters, allow_unused=True
        )
        return list(gradients)

    def _time_fault(self) -> float:
        """Seconds of a page fault, by the first and the second time that memory is written."""
        fresh, before = self.torch.empty(FRESH // 4), count_faults()
        first, second = (self._time_work(lambda: fresh.fill_(0)) for _ in range(2))
        return max(first - second, 0.0) / max(count_faults() - before, 1)

    def _time_work(self, work: Callable[[], Any]) -> float:
        """Seconds of work without its page faults. Whether the C library asks the system for memory
        in each pass, or keeps what an earlier one had, hangs on the order of all passes before."""
        self._wait()
        before, begin = count_faults(), time.perf_counter()
        work()
        self._wait()
        seconds = time.perf_counter() - begin
        return max(seconds - (count_faults() - before) * self.fault_s, 0.1 * seconds)

    def _time_pass(self, leaves: dict[int, Any]) -> float:
        return self._time_work(lambda: self._pass(leaves) and None)

    def _wait(self) -> None:
        module = accelerator.device_module(self.torch, self.device.type)
        if self.device.type != "cpu" and hasattr(module, "synchronize"):
            module.synchronize()


def count_faults() -> int:
    """Page faults of this process that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def check_modules(modules: list[Any]) -> None:
    """Check that the modules can be called once more by this rank alone.

    Raises:
        NotReplayableError: they cannot.
    """
    for module in modules:
        kinds = {kind.__name__ for kind in type(module).__mro__}
        if kinds.intersection((*MOVING, *SHARDED)):
            raise NotReplayableError(f"{type(module).__name__} needs other ranks or devices")
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None):
            raise NotReplayableError("the model is compiled, and would be compiled once more")


@contextmanager
def restore_job(torch: Any, modules: list[Any]) -> Iterator[None]:
    """Restore gradients, buffers, attributes and random states of the job at the end."""
    gradients = [(p, p.grad) for module in modules for p in module.parameters(recurse=False)]
    buffers = [
        (buffer, buffer.detach().clone())
        for module in modules
        for buffer in module.buffers(recurse=False)
    ]
    attributes = [(module, _attributes_of(module)) for module in modules]
    states = _read_random_states(torch)
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for module, known in attributes:
            _restore_attributes(module, known)
        for buffer, before in buffers:
            buffer.data.copy_(before)  # ``data``: its version stays
        for parameter, gradient in gradients:
            parameter.grad = gradient
        _restore_random_states(torch, states)


def _attributes_of(module: Any) -> dict[str, Any]:
    known = dict(vars(module))
    for name in HELD:
        known[name] = known[name].copy()
    return known


def _restore_attributes(module: Any, known: dict[str, Any]) -> None:
    now = vars(module)
    for name in [name for name in now if name not in known]:
        del now[name]
    for name, value in known.items():
        if name in HELD:
            now[name].clear()
            now[name].update(value)
        elif now.get(name) is not value:
            now[name] = value


def _read_random_states(torch: Any) -> tuple[Any, ...]:
    numpy: Any = sys.modules.get("numpy")
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    return (
        random.getstate(),
        torch.get_rng_state(),
        numpy.random.get_state() if numpy else None,
        devices,
    )


def _restore_random_states(torch: Any, states: tuple[Any, ...]) -> None:
    python, cpu, legacy, devices = states
    random.setstate(python)
    torch.set_rng_state(cpu)
    if legacy is not None:
        sys.modules["numpy"].random.set_state(legacy)
    if devices is not None:
        torch.cuda.set_rng_state_all(devices)
