"""The measurements of ``--look memory``: one micro-batch is computed again at a step boundary."""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from . import accelerator
from .activation_owners import watch_modules
from .allocation_profiler import MemoryProfiler, read_allocations
from .replay_state import check_modules, restore_job
from .step_marks import count_faults
from .step_tape import NotReplayableError, StepTape, find_tensors

TURNS, ROUNDS, MOST_ROUNDS, TURN_S = 2, 3, 16, 0.3
"""turns of each size; passes of a turn, and as many more as so many seconds allow: other programs
disturb most of the short ones"""
MOST_S = 60.0
"""time that no pass may be expected to outlast, s"""
WORTH = 1.05
"""times the samples per second that a doubled batch must bring before it is doubled again"""
LARGEST = 8
"""multiple of the job's batch up to which it is doubled"""
ROOM = 0.8
"""share of the free memory that a pass may need by our estimate"""
FRESH = 1 << 26
"""bytes of memory whose first use is timed; the C library always asks the system for so many"""
PARTS = (8, 4)
"""parts of a batch whose gradients are compared; more parts need more samples"""


class RepeatedPass:
    """The measurements, at a step boundary."""

    def __init__(self, torch: Any, tape: StepTape, optimizer: Any, draft: str) -> None:
        self.torch, self.tape, self.optimizer, self.draft = torch, tape, optimizer, draft
        self.device = device_of(optimizer)
        self.until = time.monotonic() + MOST_S
        self.pace = self.profiled_pace = 0.0
        """seconds a sample of a pass, and of one whose allocations are recorded"""
        self.found: dict[str, Any] = {"state": "measured", "device": self.device.type}
        self.fault_s = 0.0
        if self.device.type == "cpu":
            self.fault_s = min(self._time_fault() for _ in range(3))
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
        if tape.autocast is not None:
            self.found["autocast"] = str(tape.autocast)
        with restore_job(torch, self.modules):
            self._record_sizes(self._time_sizes(size))
            self._record_precision()
            self._compare_parts(size)

    def _has_time(self, samples: float, profiled: int = 0, what: str = "") -> bool:
        """Whether there is time for passes of so many samples in all, and for recording so many;
        if not, ``what`` is noted as left out."""
        needed = samples * self.pace + profiled * self.profiled_pace
        enough = time.monotonic() + needed < self.until
        if what and not enough:
            self.found.setdefault("left_out", []).append(what)
        return enough

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

    def _time_sizes(self, size: int) -> list[int]:
        """Time passes at the batch's own size and at twice that (half, where that would not fit),
        and go on to double it while that brings something. Returns the first two."""
        leaves, begin = self._leaves_at(0, size), time.monotonic()
        with watch_modules(self.torch, self.modules) as watch:
            self._pass(leaves)
        self.pace = self.profiled_pace = (time.monotonic() - begin) / size
        kept = {address: held for address, held, _ in watch.kept}
        needed = 2 * sum(kept.values()) + self.found["parameters"]  # and as much for temporaries
        other = 2 * size if self._has_room(2 * needed) else size // 2
        sizes = [size, other] if other else [size]
        best = self._time_turns(sizes)
        larger, known = 2 * other, best[size] / size
        while size < larger <= LARGEST * size and self._has_room(larger / size * needed):
            if known < WORTH * best[larger // 2] / (larger // 2):
                break
            known = best[larger // 2] / (larger // 2)
            best |= self._time_turns([size, larger], best[size])
            larger *= 2
        if self._has_time(ROUNDS * size):
            rows = [self._time_modules(leaves) for _ in range(ROUNDS)]
            self.found["module_times"] = [min(row) for row in zip(*rows, strict=True)]
        return sizes

    def _time_turns(self, sizes: list[int], known: float = 0.0) -> dict[int, float]:
        """Time passes of these sizes in turns of a few each; the first of a turn gets memory and
        fills caches, as no pass of a job does that always has the same size, and is left out.
        Where a pass of the first size is ``known``, only the others are noted, as they would be if
        the first still took so long: machines slow down and speed up. Returns the shortest."""
        leaves = {size: self._leaves_at(0, size) for size in sizes}
        best, rows = dict.fromkeys(sizes, float("inf")), list[tuple[int, float, float]]()
        for turn, size in itertools.product(range(TURNS), sizes):
            if not self._has_time(ROUNDS * size, what="" if turn else f"time of {size} samples"):
                break
            rounds = int(TURN_S / max(self.pace * size, 1e-9))
            for number in range(min(max(rounds, ROUNDS), MOST_ROUNDS)):
                before = count_faults()
                seconds = self._time_pass(leaves[size])
                if number:
                    faults = (count_faults() - before) * self.fault_s
                    rows.append((size, seconds, faults))
                    best[size] = min(best[size], seconds)
            self.pace = seconds / size
        times = known / best[sizes[0]] if known and rows else 1.0
        noted = [row for row in rows if not known or row[0] != sizes[0]]
        self.found.setdefault("times", []).extend((size, times * s) for size, s, _ in noted)
        self.found.setdefault("fault_times", []).extend((size, s) for size, _, s in noted)
        return {size: times * s for size, s in best.items()}

    def _record_sizes(self, sizes: list[int]) -> None:
        """Record passes of these sizes, the job's own first."""
        own, *others = sizes
        self.found["replays"] = [self._record_pass(own)]
        if others and self._has_time(0, others[0], f"the memory of {others[0]} samples"):
            self.found["replays"].append(self._record_pass(others[0]))

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

    def _has_room(self, needed: float) -> bool:
        return needed < ROOM * self._free_bytes()

    def _free_bytes(self) -> int:
        module = accelerator.device_module(self.torch, self.device.type)
        if self.device.type == "cpu" or not hasattr(module, "mem_get_info"):
            return _free_host_bytes()
        free = int(module.mem_get_info()[0])
        return free + int(module.memory_reserved()) - int(module.memory_allocated())

    def _record_pass(self, size: int, dtype: Any = None) -> dict[str, Any]:
        leaves, begin = self._leaves_at(0, size), time.monotonic()
        with watch_modules(self.torch, self.modules) as watch, self._autocast(dtype):
            self.profiler.start("whyidle::replay")
            try:
                gradients = self._pass(leaves)
            except BaseException:
                self.profiler.stop()
                raise
            recorded = read_allocations(
                self.profiler, self.profiler.stop(), self.draft, self.device
            )
            del gradients
        recorded |= {"batch": size, "saved": watch.kept, "outputs": watch.outputs}
        recorded["autocast"] = None if dtype is None else str(dtype).rpartition(".")[2]
        self.profiled_pace = (time.monotonic() - begin) / size
        return recorded

    @contextmanager
    def _autocast(self, dtype: Any) -> Iterator[None]:
        if dtype is None:
            yield
        else:
            with self.torch.autocast(self.device.type, dtype=dtype):
                yield

    def _time_pass(self, leaves: dict[int, Any]) -> float:
        return self._time_work(lambda: self._pass(leaves) and None)

    def _wait(self) -> None:
        module = accelerator.device_module(self.torch, self.device.type)
        if self.device.type != "cpu" and hasattr(module, "synchronize"):
            module.synchronize()

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

    def _record_precision(self) -> None:
        """Record and time passes in bfloat16, where the job computes in single precision."""
        torch = self.torch
        single = all(p.dtype is torch.float32 for p in self.parameters)
        if self.tape.autocast is not None or not single:
            return
        narrow = self.found["narrow_times"] = []
        for size in [recorded["batch"] for recorded in self.found["replays"]]:
            if not self._has_time(size, size, f"bfloat16 at {size} samples"):
                return
            self.found["replays"].append(self._record_pass(size, torch.bfloat16))
            if self._has_time(0, size):  # slow where a CPU emulates it
                with self._autocast(torch.bfloat16):
                    narrow.append((size, self._time_pass(self._leaves_at(0, size))))

    def _compare_parts(self, size: int) -> None:
        """Products of the gradients of any two equal parts of the batch."""
        parts = next((n for n in PARTS if size % n == 0), 0)
        needed = (parts + 1) * sum(p.untyped_storage().nbytes() for p in self.parameters)
        if not parts or needed > ROOM * self._free_bytes() or not self._has_time(3 * size):
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
