"""``--look memory``: what holds memory in a step, and what of it grows with the batch.

The third step of the job itself is recorded, from the first call of its model to the update: every
allocation by PyTorch's profiler, and what backward passes keep by saved-tensor hooks. A batch of
another size that comes later is recorded too. ``analysis.memory_plan`` reads what is written.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from ....core.events import Events
from ....core.listener import Listener
from ....core.recorder import clock_ns
from ....core.thread_stacks import read_variables
from .. import accelerator
from ..activation_owners import ModuleWatch, address_of, is_whole, watch_modules
from ..allocation_profiler import MemoryProfiler, read_allocations
from ..batch_size import find_batch_size, find_lists
from .batch_growth import BatchGrowth, peak_of_twice
from .step_tape import NotReplayableError, find_tensors

LOOK = "memory"
FIRST = 2
"""steps before the look: the first one makes the optimizer's state and fills caches"""
LOOKED, WAITED_S = 2_000, 60.0
"""steps after which no batch of another size is waited for, and the longest epoch for whose last
one a job goes on that was to end"""
APART, UNSURE = 0.8, 0.05
"""largest ratio of two sizes through which a line is drawn; share of a peak that may be wrong"""


def is_requested(look: str = LOOK) -> bool:
    """Whether ``--look memory``, or another look, was given."""
    return look in os.environ.get("WHYIDLE_LOOK", "").split(",")


def device_of(optimizer: Any) -> Any:
    """The device of the parameters that an optimizer updates."""
    return next(p.device for group in optimizer.param_groups for p in group["params"])


class MemoryLook(Listener):
    """Makes the look in one training process."""

    listener = "memory look"
    wants_steps = True

    def __init__(self, events: Events) -> None:
        self.events = events
        self.steps = 0
        self.called = False
        """whether a model was called in this step"""
        self.loader_size: int | None = None
        """samples of a batch of the loader that was opened last"""
        self.epoch = self.last_size = 0
        """its batches, and samples of the last one; 0: not known"""
        self.stepped_s, self.pace_s = 0.0, float("inf")
        """when the last step ended, and the shortest step"""
        self.shapes: set[int] | None = None
        """numbers in the recorded step's inputs, for each sample"""
        self.uneven = False
        """whether those of a batch, or of several, differ"""
        self.recorded: dict[int, dict[str, Any]] = {}
        """size of the batch -> what was recorded of a step"""
        self.found: dict[str, Any] = {"state": "no optimizer of PyTorch has made a step"}
        self.undo: list[Callable[[], Any]] = []
        self.step: RecordedStep | None = None
        self._publish()

    def _publish(self) -> None:
        self.events.recorder.documents["look-memory.json"] = self.found

    def stop_listening(self) -> None:
        """Stop recording."""
        if self.step is not None:
            self.step.abandon()
            self.step = None
        while self.undo:
            self.undo.pop()()
        self.wants_steps = False

    def on_iterator(self, iterator: Any) -> None:
        """A loader is iterated."""
        sampler: Any = getattr(iterator, "_index_sampler", None)
        size = getattr(sampler, "batch_size", None)
        self.loader_size = size if isinstance(size, int) and size > 0 else None
        self.epoch = self.last_size = 0
        # a sampler of the script's own need have neither a length nor these attributes
        with suppress(TypeError, AttributeError, NotImplementedError):
            if self.loader_size and not sampler.drop_last:
                self.epoch, self.last_size = len(sampler), len(sampler.sampler) % self.loader_size

    def on_step(self, optimizer: Any) -> None:
        """Read what was recorded of the step; from the second step on, wait for the next one."""
        if optimizer is None or id(optimizer) != self.events.lead or not self.wants_steps:
            return
        self.steps += 1
        self.called = False
        now_s = time.perf_counter()
        self.pace_s, self.stepped_s = min(self.pace_s, now_s - self.stepped_s), now_s
        rank = self.events.recorder.facts.get("rank") or os.environ.get("RANK") or "0"
        if str(rank) != "0":
            self._decline("another rank is measured instead")
            return
        if self.step is not None:
            self._read_step(optimizer)
        elif self.steps == FIRST:
            self._arm(optimizer)
        elif self.steps < FIRST:
            self.found["state"] = "the job ended before its second step"
        elif not self.recorded:
            self.found["state"] = "no call of a model that computes gradients was seen"
        self.found["uneven"] = self.uneven
        self._publish()
        if self.steps > LOOKED or len(self.recorded) > 1 or not self.wants_steps:
            self.stop_listening()
        self.wants_longer = self._awaits_last()

    def _awaits_last(self) -> bool:
        """Whether the last batch of an epoch would tell what grows; the job has no other ranks,
        which would not wait."""
        if not self.wants_steps or str(self.events.recorder.facts.get("world_size") or 1) != "1":
            return False
        open_sizes = [size for size, one in self.recorded.items() if not one["grows"]]
        apart = bool(open_sizes) and 0 < self.last_size <= APART * open_sizes[0]
        return apart and self.epoch * self.pace_s <= WAITED_S

    def _arm(self, optimizer: Any) -> None:
        from torch.nn.modules import module

        torch: Any = sys.modules["torch"]

        def enter(model: Any, args: Any) -> None:
            if self.called or not torch.is_grad_enabled():
                return
            if any(p.requires_grad for p in model.parameters()):  # no transform of an image
                self.called = True  # what it calls inside has inputs of its own
                try:
                    self._begin_step(torch, optimizer, model, _with_keywords(model, args))
                except NotReplayableError as reason:
                    self._decline(str(reason))

        begin = self._contain(lambda *_: getattr(self.step, "begin_update", int)())
        end = self._contain(lambda *_: getattr(self.step, "end_update", int)())

        def update(_: Any, args: Any, kwargs: Any) -> Any:
            """The passes are over, or run in a closure that the optimizer calls first."""
            work = kwargs.get("closure", args[1] if len(args) > 1 else None)
            if not callable(work):
                return begin()
            made = {"closure": lambda: (work(), begin())[0]}
            if "closure" in kwargs:
                return args, kwargs | made
            return (args[0], *made.values(), *args[2:]), kwargs

        self.undo = [
            module.register_module_forward_pre_hook(self._contain(enter)).remove,
            optimizer.register_step_pre_hook(update).remove,
            optimizer.register_step_post_hook(end).remove,
        ]
        self.found["state"] = "the job ended before its third step"

    def _contain(self, work: Callable[..., Any]) -> Callable[..., None]:
        return lambda *args: self.events.run_contained(self.listener, lambda *_: work(*args))

    def _begin_step(self, torch: Any, optimizer: Any, model: Any, args: Any) -> None:
        time_first = any(getattr(m, "batch_first", True) is False for m in model.modules())
        sized = find_batch_size(args, self.loader_size, time_first=time_first)
        size = sized[0] or 0
        lists = find_lists(args)
        sizes = [(t.numel(), size in t.shape and not lists) for t in find_tensors(lists or args)]
        shapes = {number // size if batched else number for number, batched in sizes}
        self.uneven |= self.shapes not in (None, shapes) or len(shapes) > 1 <= len(lists)
        apart = any(min(size, n) <= APART * max(size, n) for n in self.recorded)
        apart &= shapes == self.shapes  # else the line would mix samples and their lengths
        if torch.autograd._profiler_enabled() or (self.recorded and not (size and apart)):
            return
        if why_not := _explain_unfit(torch, model):
            raise NotReplayableError(why_not)
        self.step, self.shapes = RecordedStep(torch, optimizer, model, args, sized), shapes

    def _decline(self, why: str) -> None:
        if not self.recorded:
            self.found["state"] = why
        self._publish()
        self.stop_listening()

    def _read_step(self, optimizer: Any) -> None:
        assert self.step is not None
        step, self.step = self.step, None
        begin = clock_ns()
        try:
            found = step.read(optimizer, self.events.recorder.file_path("draft"))
        except NotReplayableError as reason:
            self._decline(str(reason))
            return
        self.recorded[step.size or 0] = found.pop("recorded")
        if step.size is None:  # no other one would tell more
            self.wants_steps = False
        if len(self.recorded) == 1:
            self.found = {**found, "state": "measured", "windows": [(step.began, clock_ns())]}
        else:
            self.found["windows"].append((begin, clock_ns()))
        self.found["replays"] = list(self.recorded.values())


class RecordedStep:
    """One step of the job, from the first call of its model to its update."""

    def __init__(
        self, torch: Any, optimizer: Any, model: Any, args: Any, sized: tuple[int | None, str]
    ) -> None:
        self.torch = torch
        self.size, self.why = sized
        self.listed = any(isinstance(value, list) for value in args)
        self.began, self.begun_s = clock_ns(), time.perf_counter()
        self.device = device_of(optimizer)
        self.groups = [p for group in optimizer.param_groups for p in group["params"]]
        self.modules = list(model.modules())
        kinds = [(name, type(module).__name__) for name, module in model.named_modules()]
        self.names = [(name or kind, kind) for name, kind in kinds]
        gradients = [p.grad for p in self.groups if p.grad is not None]
        state = [list(part.values()) for part in optimizer.state.values()]
        self._seen: set[int] = set()
        # a slice of a whole dataset shares its memory, which does not grow with the batch
        batch = [tensor for tensor in find_tensors(args) if is_whole(tensor)]
        self.sliced = {address_of(t) for t in find_tensors(args) if not is_whole(t)}
        tensors = {
            "parameters": [*self.groups, *model.parameters()],
            "kept": gradients,
            "optimizer": list(find_tensors(state)),
            "buffers": list(model.buffers()),
            "batch_bytes": batch,
        }
        self.counted = {name: sum(self._sizes(own)) for name, own in tensors.items()}
        everything = (o for o in gc.get_objects() if issubclass(type(o), torch.Tensor))
        self.others = self._sizes(everything)
        self.counted |= self._read_device()
        self.seconds: list[float] = []
        """of the forward and backward passes, once over"""
        self.update_rows: tuple[MemoryProfiler, Any] | None = None
        self._profiler = MemoryProfiler(torch, cuda=False)
        self._result: Any = None
        self._open = ExitStack()
        self.watch: ModuleWatch = self._open.enter_context(watch_modules(torch, self.modules))
        self.watch.enter(model, None)
        self._profiler.start("whyidle::step")

    def _sizes(self, tensors: Any) -> list[int]:
        """Bytes of the storages on the device that were not seen yet."""
        sizes = []
        for tensor in tensors:
            with suppress(RuntimeError, NotImplementedError, AttributeError, ReferenceError):
                address = address_of(tensor)
                if address and tensor.device.type == self.device.type and address not in self._seen:
                    self._seen.add(address)
                    sizes.append(int(tensor.untyped_storage().nbytes()))
        return sizes

    def _read_device(self) -> dict[str, int]:
        module = accelerator.device_module(self.torch, self.device.type)
        found = {"free_bytes": accelerator.free_memory(self.torch, self.device.type)}
        if target := os.environ.get("WHYIDLE_MEMORY_FOR"):
            found["target"] = int(target)
        if self.device.type != "cpu" and hasattr(module, "memory_allocated"):
            found["allocated"] = int(module.memory_allocated())
            found["reserved"] = int(module.memory_reserved())
        else:
            with open("/proc/self/statm", encoding="ascii") as file:
                found["process_begin"] = int(file.read().split()[1]) * resource.getpagesize()
        with suppress(OSError):
            shared = os.statvfs("/dev/shm")
            found["shared_bytes"] = shared.f_blocks * shared.f_frsize
            found["shared_free_bytes"] = shared.f_bavail * shared.f_frsize
        return found

    def begin_update(self) -> None:
        """The passes are over."""
        self._open.close()
        if self._profiler.running and self._result is None:
            # before what was recorded is read, which takes memory of its own
            self.process_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            self._result = self._profiler.stop()
            self.seconds.append(time.perf_counter() - self.begun_s)
            self._update = MemoryProfiler(self.torch, cuda=False)
            self._update.start("whyidle::update")

    def end_update(self) -> None:
        """The optimizer has made its step."""
        if self._result is not None and self._update.running:
            self.update_rows = self._update, self._update.stop()

    def abandon(self) -> None:
        """Stop recording where the job ends, or something failed."""
        self._open.close()
        for profiler in (self._profiler, getattr(self, "_update", None)):
            if profiler is not None and profiler.running:
                profiler.stop()

    def read(self, optimizer: Any, draft: str) -> dict[str, Any]:
        """What was recorded.

        Raises:
            NotReplayableError: the update was made in another way, or there are too many rows.
        """
        self.abandon()
        if self._result is None:
            raise NotReplayableError("the optimizer's step was not seen")
        if self.watch.ended:
            raise NotReplayableError(
                "torch.func, which the step calls, does not allow memory to be measured"
            )
        recorded = read_allocations(self._profiler, self._result, draft, self.device)
        rows = recorded["rows"] = _drop_earlier(recorded["rows"])
        if self.size and self.listed and not self.watch.keeps_rows_of(self.size):
            self.size, self.why = None, "the model computes the samples of a list one by one"
        gradients = [p.grad for p in self.groups if p.grad is not None]
        growing = BatchGrowth(self, gradients)
        last = {address: turn for turn, (_, address, size) in enumerate(rows) if size > 0}
        ours = {last.get(address_of(gradient)) for gradient in gradients}
        grows = [turn for turn, row in enumerate(rows) if turn not in ours and growing(abs(row[2]))]
        results = [size for size in self.others if size in growing.shaped]
        kept = self.counted.pop("kept")
        unsure = {n for n, row in enumerate(rows) if growing.is_unsure(abs(row[2]))} - ours
        least, most = (peak_of_twice(rows, own) for own in ({*grows} - unsure, unsure.union(grows)))
        held = self.counted["parameters"] + self.counted["optimizer"] + sum(self.others)
        if self.size and most - least > UNSURE * (held + least):
            grows = []
            own = f"{(most - least) / 1e6:.3g} MB of the peak"
            self.why = f"{own} may grow with the batch or not; run it at another batch, too"
        update = read_allocations(*self.update_rows, draft, self.device) if self.update_rows else {}
        return {
            **self.counted,
            "device": self.device.type,
            "batch": self.size,
            "why_no_batch": self.why,
            "gradients": sum(g.untyped_storage().nbytes() for g in gradients),
            "kept_gradients": bool(kept),
            "results": sum(results),
            "others": sum(self.others) - sum(results),
            "process_bytes": self.process_bytes,
            "modules": self.names,
            "module_times": [self.watch.seconds.get(n, 0.0) for n in range(len(self.modules))],
            "module_parameters": [
                sum(p.numel() * p.element_size() for p in m.parameters(False)) for m in self.modules
            ],
            "floating": sum(4 * p.numel() for p in self.groups if p.dtype == self.torch.float32),
            "times": [[self.size or 0, seconds] for seconds in self.seconds],
            "optimizer_rows": update.get("rows", []),
            "recorded": {
                **recorded,
                "batch": self.size or 0,
                "grows": grows if self.size else [],
                "saved": [own for own in self.watch.kept if own[0] not in self.sliced],
                "outputs": self.watch.outputs,
            },
        }


def _explain_unfit(torch: Any, model: Any) -> str:
    """Why a step cannot be recorded without a change to the job; empty where it can."""
    if hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None:
        return "the model is compiled: run once without torch.compile"
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return "the step runs inside saved_tensors_hooks of the script"
    return ""


def _with_keywords(model: Any, args: Any) -> tuple[Any, ...]:
    """What a model is called with, by keywords too."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not type(model)._call_impl.__code__:
        frame = frame.f_back
    return (*args, *(read_variables(frame)["kwargs"].values() if frame else ()))


def _drop_earlier(rows: list[list[int]]) -> list[list[int]]:
    """The rows without the ends of what was there before, which only some devices tell."""
    live, kept = set[int](), list[list[int]]()
    for row in rows:
        if row[2] > 0 or row[1] in live:
            (live.add if row[2] > 0 else live.discard)(row[1])
            kept.append(row)
    return kept
