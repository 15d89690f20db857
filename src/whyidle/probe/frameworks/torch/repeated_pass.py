"""The measurements of ``--look memory``: one micro-batch is computed again at a step boundary."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from . import accelerator
from .activation_owners import FORWARD, UNPACK, watch_modules
from .profiler import TorchProfiler
from .replay_state import check_modules, restore_job
from .step_tape import NotReplayableError, StepTape, find_tensors

ROUNDS = 3
"""timed passes of each size, in turn"""
MOST_S = 60.0
"""time after which no further pass begins, s"""
MOST_ROWS = 400_000
"""allocations of a pass above which it is not evaluated"""
ROOM = 0.8
"""share of the free memory that a pass may need by our estimate"""
PARTS = (8, 4)
"""parts of a batch whose gradients are compared; more parts need more samples"""


class MemoryProfiler(TorchProfiler):
    """PyTorch's profiler, for allocations."""

    def _profiler_config(self) -> tuple[Any, set[Any]]:
        from torch._C._profiler import _ExperimentalConfig

        autograd = self._torch.autograd
        own = (False, True, False, False, False)  # shapes, memory, stacks, FLOPs, modules
        config = autograd.ProfilerConfig(autograd.ProfilerState.KINETO, *own, _ExperimentalConfig())
        return config, {autograd.ProfilerActivity.CPU}


class RepeatedPass:
    """The measurements, at a step boundary."""

    def __init__(self, torch: Any, tape: StepTape, optimizer: Any, draft: str) -> None:
        self.torch, self.tape, self.optimizer, self.draft = torch, tape, optimizer, draft
        self.device = device_of(optimizer)
        self.until = time.monotonic() + MOST_S
        self.found: dict[str, Any] = {"state": "measured", "device": self.device.type}
        self.profiler = MemoryProfiler(torch, cuda=False)
        self.modules: list[Any] = []
        self.names: dict[int, str] = {}
        self.parameters: list[Any] = []
        self.held: dict[int, Any] = {}

    def measure(self) -> None:
        """Measure everything.

        Raises:
            NotReplayableError: the step cannot be computed again.
        """
        torch, tape = self.torch, self.tape
        self._count_persistent()
        tape.keep_needed()
        self._list_modules(tape.modules())
        check_modules(self.modules)
        self.held = tape.living_results()
        self._count_transient()
        size = self._batch_size()
        self.found |= {"batch": size, "modules": self._describe_modules()}
        if torch.is_autocast_enabled(self.device.type):
            self.found["autocast"] = str(torch.get_autocast_dtype(self.device.type))
        with restore_job(torch, self.modules):
            self._record_sizes(size)
            self._time_sizes()
            self._record_precision(size)
            self._compare_parts(size)

    def _is_late(self) -> bool:
        return time.monotonic() > self.until

    # -- what is there ------------------------------------------------------------------------

    def _count_persistent(self) -> None:
        """Count what lives from step to step, and everything else that lives now."""
        groups = [p for group in self.optimizer.param_groups for p in group["params"]]
        state = list(find_tensors([list(s.values()) for s in self.optimizer.state.values()]))
        gradients = [p.grad for p in groups if p.grad is not None]
        seen: set[int] = set()
        self.found["parameters"] = self._count_bytes(groups, seen)
        self.found["gradients"] = self._count_bytes(gradients, seen)
        self.found["optimizer"] = self._count_bytes(state, seen)
        self._seen = seen

    def _count_transient(self) -> None:
        """Count buffers, the batch, results that are kept, and everything else."""
        seen, found = self._seen, self.found
        models = self.modules
        everything = [t for m in models for t in m.parameters(recurse=False)]
        found["parameters"] += self._count_bytes(everything, seen)
        found["buffers"] = self._count_bytes([b for m in models for b in m.buffers(False)], seen)
        found["batch_bytes"] = self._count_bytes(list(self._batch_leaves().values()), seen)
        found["results"] = self._count_bytes(list(self.held.values()), seen)
        kinds = (self.torch.Tensor,)
        others = [o for o in gc.get_objects() if issubclass(type(o), kinds)]
        found["others"] = self._count_bytes(others, seen)
        module = accelerator.device_module(self.torch, self.device.type)
        if self.device.type != "cpu" and hasattr(module, "memory_allocated"):
            found["allocated"] = int(module.memory_allocated())
            found["reserved"] = int(module.memory_reserved())
        found["free_bytes"] = self._free_bytes()
        with suppress(OSError):
            shared = os.statvfs("/dev/shm")
            found["shared_bytes"] = shared.f_blocks * shared.f_frsize
            found["shared_free_bytes"] = shared.f_bavail * shared.f_frsize

    def _count_bytes(self, tensors: list[Any], seen: set[int]) -> int:
        """Bytes of the tensors' storages on the device that are not in ``seen`` yet."""
        total = 0
        for tensor in tensors:
            with suppress(RuntimeError, NotImplementedError, AttributeError):
                storage = tensor.untyped_storage()
                address = storage.data_ptr()
                if address and tensor.device.type == self.device.type and address not in seen:
                    seen.add(address)
                    total += storage.nbytes()
        return total

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

    def _describe_modules(self) -> list[list[Any]]:
        return [[self.names[id(module)], type(module).__name__] for module in self.modules]

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

    def _batch_size(self) -> int:
        leaves = self._batch_leaves()
        if not leaves:
            raise NotReplayableError("the model's input has no dimension of samples")
        return int(next(iter(leaves.values())).shape[0])

    def _leaves_at(self, begin: int, size: int) -> dict[int, Any]:
        """The tape's inputs with ``size`` samples from ``begin`` on, repeated if need be."""
        torch, batch = self.torch, self._batch_leaves()
        changed = {}
        for number, tensor in batch.items():
            whole = tensor.shape[0]
            rows = torch.arange(begin, begin + size, device=tensor.device) % whole
            part = tensor.detach() if (begin, size) == (0, whole) else tensor.detach()[rows]
            changed[number] = part.requires_grad_(tensor.requires_grad)
        return {**self.tape.leaves, **changed}

    # -- passes -------------------------------------------------------------------------------

    def _pass(self, leaves: dict[int, Any]) -> list[Any]:
        """One forward and backward pass; returns the gradients."""
        values = self.tape.compute(leaves, self.held)
        loss = values[self.tape.loss or 0]
        gradients = self.torch.autograd.grad(
            loss.sum() if loss.dim() else loss, self.parameters, allow_unused=True
        )
        return list(gradients)

    def _record_sizes(self, size: int) -> None:
        """Record passes at the batch's own size and at twice that, or half where that would not
        fit."""
        recorded = self.found["replays"] = [self._record_pass(size)]
        rows = recorded[0]["rows"]
        peak = _peak_of(rows)
        fits = peak * 2 < ROOM * self._free_bytes()
        other = 2 * size if fits else size // 2
        if other:
            recorded.append(self._record_pass(other))

    def _free_bytes(self) -> int:
        module = accelerator.device_module(self.torch, self.device.type)
        if self.device.type == "cpu" or not hasattr(module, "mem_get_info"):
            return _free_host_bytes()
        free = int(module.mem_get_info()[0])
        return free + int(module.memory_reserved()) - int(module.memory_allocated())

    def _record_pass(self, size: int, dtype: Any = None) -> dict[str, Any]:
        leaves = self._leaves_at(0, size)
        with watch_modules(self.torch, self.modules) as watch, self._autocast(dtype):
            self.profiler.start("whyidle::replay")
            try:
                gradients = self._pass(leaves)
            except BaseException:
                self.profiler.stop()
                raise
            recorded = read_allocations(self.profiler, self.draft, self.device)
            del gradients
        recorded |= {"batch": size, "saved": watch.kept, "outputs": watch.outputs}
        recorded["autocast"] = None if dtype is None else str(dtype).rpartition(".")[2]
        return recorded

    @contextmanager
    def _autocast(self, dtype: Any) -> Iterator[None]:
        if dtype is None:
            yield
        else:
            with self.torch.autocast(self.device.type, dtype=dtype):
                yield

    def _time_pass(self, leaves: dict[int, Any]) -> float:
        self._wait()
        begin = time.perf_counter()
        gradients = self._pass(leaves)
        self._wait()
        del gradients
        return time.perf_counter() - begin

    def _wait(self) -> None:
        module = accelerator.device_module(self.torch, self.device.type)
        if self.device.type != "cpu" and hasattr(module, "synchronize"):
            module.synchronize()

    def _time_sizes(self) -> None:
        """Time passes of the recorded sizes, in turn, so that a drift of the machine's speed
        changes none against the other."""
        times = self.found["times"] = []
        sizes = [recorded["batch"] for recorded in self.found["replays"]]
        leaves = {size: self._leaves_at(0, size) for size in sizes}
        for _ in range(ROUNDS):
            for size in sizes:
                if not self._is_late():
                    times.append((size, self._time_pass(leaves[size])))  # noqa: PERF401
        if not self._is_late():
            self.found["module_times"] = self._time_modules(leaves[sizes[0]])

    def _time_modules(self, leaves: dict[int, Any]) -> list[float]:
        """Seconds of the forward pass in each module, those inside it included."""
        from torch.nn.modules import module as home

        numbers = {id(module): number for number, module in enumerate(self.modules)}
        seconds, begun = [0.0] * len(self.modules), list[float]()

        def enter(module: Any, _: Any) -> None:
            self._wait()
            begun.append(time.perf_counter())

        def leave(module: Any, args: Any, result: Any) -> None:
            self._wait()
            if begun and id(module) in numbers:
                seconds[numbers[id(module)]] += time.perf_counter() - begun.pop()

        hooks = [
            home.register_module_forward_pre_hook(enter),
            home.register_module_forward_hook(leave, always_call=True),
        ]
        try:
            self._time_pass(leaves)
        finally:
            for hook in hooks:
                hook.remove()
        return seconds

    def _record_precision(self, size: int) -> None:
        """Record and time passes in bfloat16, where the job computes in single precision."""
        torch = self.torch
        single = all(p.dtype is torch.float32 for p in self.parameters)
        if torch.is_autocast_enabled(self.device.type) or not single:
            return
        for recorded in list(self.found["replays"]):
            if not self._is_late():
                self.found["replays"].append(self._record_pass(recorded["batch"], torch.bfloat16))
        narrow = self.found["narrow_times"] = []
        for recorded in self.found["replays"][2:]:
            if not self._is_late():
                leaves = self._leaves_at(0, recorded["batch"])
                with self._autocast(torch.bfloat16):
                    narrow.append((recorded["batch"], self._time_pass(leaves)))

    def _compare_parts(self, size: int) -> None:
        """Products of the gradients of any two equal parts of the batch."""
        parts = next((n for n in PARTS if size % n == 0), 0)
        needed = (parts + 1) * sum(p.untyped_storage().nbytes() for p in self.parameters)
        if not parts or needed > ROOM * self._free_bytes() or self._is_late():
            return
        each, kept = size // parts, list[Any]()
        for part in range(parts):
            gradients = self._pass(self._leaves_at(part * each, each))
            kept.append([g.detach().float() for g in gradients if g is not None])
        whole = [g.detach().float() for g in self._pass(self._leaves_at(0, size)) if g is not None]
        self.found["part_size"] = each
        self.found["products"] = [[_multiply(one, two) for two in kept] for one in kept]
        self.found["whole_products"] = [_multiply(whole, one) for one in (*kept, whole)]


def _multiply(one: list[Any], two: list[Any]) -> float:
    return float(sum((a * b).sum() for a, b in zip(one, two, strict=True)))


def device_of(optimizer: Any) -> Any:
    """The device of the parameters that an optimizer updates."""
    return next(p.device for group in optimizer.param_groups for p in group["params"])


def _free_host_bytes() -> int:
    from ...knobs._free_memory import free_bytes

    return free_bytes()


def _peak_of(rows: list[list[int]]) -> int:
    level = peak = 0
    for _, _, size in rows:
        level += size
        peak = max(peak, level)
    return peak


def read_allocations(profiler: MemoryProfiler, path: str, device: Any) -> dict[str, Any]:
    """Stop the profiler, and return allocations as (time ns, address, bytes) and marks as (begin
    ns, end ns, kind, module)."""
    result = profiler.stop()
    try:
        profiler.save(result, path)
        with open(path, "rb") as file:
            events = json.load(file)["traceEvents"]
    finally:
        with suppress(OSError):
            os.unlink(path)
    kind = 0 if device.type == "cpu" else 1
    rows, marks = [], []
    for event in events:
        name = event.get("name", "")
        if name == "[memory]" and (event["args"]["Device Type"] == 0) == (kind == 0):
            own = event["args"]
            rows.append([round(event["ts"] * 1000), own["Addr"], own["Bytes"]])
        elif name.startswith((FORWARD, UNPACK)) and "dur" in event:
            begin = round(event["ts"] * 1000)
            number = int(name.rpartition(" ")[2])
            end = begin + round(event["dur"] * 1000)
            marks.append([begin, end, int(name.startswith(UNPACK)), number])
    if len(rows) > MOST_ROWS:
        raise NotReplayableError(f"a step makes more than {MOST_ROWS:,} allocations")
    start = min([row[0] for row in rows] + [mark[0] for mark in marks], default=0)
    return {
        "rows": [[t - start, address, size] for t, address, size in sorted(rows, key=_time_of)],
        "marks": sorted([b - start, e - start, kind, number] for b, e, kind, number in marks),
    }


def _time_of(row: list[int]) -> int:
    return row[0]
