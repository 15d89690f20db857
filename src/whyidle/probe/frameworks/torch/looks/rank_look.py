"""Measures what ``whyidle scale`` needs: when each gradient is ready, and the links between ranks.

Only where ``WHYIDLE_LOOK`` names ``ranks``. For some steps a hook of each parameter notes when its
gradient has been accumulated, by the device's own clock where it has one. Once, after the first
model was wrapped by DistributedDataParallel, all ranks reduce a few tensors of their own: all of
them are there, and it is done only where all are on this host and watched, since otherwise some
might not come. Gradients are not touched.
"""

from __future__ import annotations

import glob
import json
import os
import socket
import sys
import time
from typing import Any

from ....core.events import Events
from ....core.listener import Listener
from ....core.recorder import clock_ns
from .. import accelerator
from ..device_clock import find_clock
from .memory_look import is_requested

DOCUMENT = "ranks.json"
FIRST, STEPS = 5, 64
"""steps that are left out, as memory is new to them; steps that are measured"""
SIZES = (1 << 10, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
"""bytes of the tensors that are reduced; the last two only where gradients are as large"""


class Step:
    """One step: marks where it begins, where each gradient is ready, where its last backward pass
    ends, where it ends."""

    def __init__(self, begin: Any, tensors: int) -> None:
        self.begin, self.end, self.backward_end = begin, None, None
        self.ready: list[Any] = [None] * tensors


class RankLook(Listener):
    """The measured steps of one rank."""

    listener = "rank look"

    def __init__(self, events: Events) -> None:
        self.events = events
        self.clock: Any = None
        self.step: Step | None = None
        self.waiting: list[Step] = []
        """whose marks the device has not come to"""
        self.rows: list[list[int]] = []
        self.left_out, self.taken = 0, 0
        self._hooks: list[Any] = []
        self._document: dict[str, Any] = {}

    def on_training_begin(self, optimizer: Any) -> None:
        """Hook the gradients of the optimizer that steps first."""
        groups = getattr(optimizer, "param_groups", None) or []
        tensors = [p for group in groups for p in group["params"] if p.requires_grad]
        if not tensors or not hasattr(tensors[0], "register_post_accumulate_grad_hook"):
            return
        self.clock = find_clock(sys.modules["torch"], self.events.recorder.facts)
        self._document = self.events.recorder.documents.setdefault(DOCUMENT, {})
        self._document |= {
            "bytes": [p.numel() * p.element_size() for p in tensors],
            "device": self.clock is not None,
            "steps": self.rows,
        }
        for index, tensor in enumerate(tensors):
            self._hooks.append(tensor.register_post_accumulate_grad_hook(self._note_ready(index)))
        self.wants_steps = self.wants_detail = True
        self.events.be_careful()

    def _note_ready(self, index: int) -> Any:
        def note(tensor: Any) -> None:
            if self.step is not None:
                self.events.run_contained(self.listener, self._mark_ready, index)

        return note

    def _mark_ready(self, index: int) -> None:
        if self.step is not None:
            self.step.ready[index] = self._mark()

    def _mark(self) -> Any:
        if self.clock is None:
            return clock_ns()
        event = self.clock.event()
        self.clock.record(event)
        return event

    def on_backward_end(self, begin: int) -> None:
        """Note the end of a backward pass, after the exchange of gradients if there is one."""
        if self.step is not None:
            self.step.backward_end = self._mark()

    def on_step(self, optimizer: Any) -> None:
        """End a step and begin the next."""
        if not self._hooks or (optimizer is not None and id(optimizer) != self.events.lead):
            return
        if self.left_out < FIRST:
            self.left_out += 1
            return
        mark = self._mark()
        if self.step is not None:
            self.step.end = mark
            self.waiting.append(self.step)
            self.taken += 1
        self.step = Step(mark, len(self._hooks)) if self.taken < STEPS else None
        self._read_complete()
        if self.step is None and not self.waiting:
            self.stop_listening()

    def _read_complete(self) -> None:
        while self.waiting and (self.clock is None or self.clock.query(self.waiting[0].end)):
            row = self._read_step(self.waiting.pop(0))
            if row is not None:
                self.rows.append(row)
                self._document["read"] = len(self.rows)

    def _read_step(self, step: Step) -> list[int] | None:
        """Times since its begin, ns: its end, the end of the backward pass, each gradient (-1: it
        was not computed). None without a backward pass."""
        if step.backward_end is None:
            return None
        return [self._elapsed_ns(step.begin, m) for m in (step.end, step.backward_end, *step.ready)]

    def _elapsed_ns(self, begin: Any, mark: Any) -> int:
        if mark is None:
            return -1
        if self.clock is None:
            return int(mark - begin)
        return int(self.clock.elapsed_ms(begin, mark) * 1e6)

    def on_process_end(self) -> None:
        """Read what the device has come to meanwhile."""
        self._read_complete()

    def stop_listening(self) -> None:
        """Remove the hooks."""
        while self._hooks:
            self._hooks.pop().remove()
        self.wants_steps = self.wants_detail = False


def install_rank_look(events: Events) -> None:
    """Measure the steps and the link of this process, if its user asked for it."""
    if not is_requested("ranks"):
        return
    from torch.nn.parallel import DistributedDataParallel

    events.add_listener(RankLook(events))
    measured: list[bool] = []

    def note_wrapping(ddp: Any, begin: int) -> None:
        if not measured:
            measured.append(True)
            document = events.recorder.documents.setdefault(DOCUMENT, {})
            document |= _measure_link(ddp, events.recorder.folder)

    events.patch_call("link look", DistributedDataParallel, "__init__", note_wrapping)


def _measure_link(ddp: Any, folder: str) -> dict[str, Any]:
    """Return the times of reductions, in seconds by size in bytes, or why there are none."""
    import torch
    import torch.distributed as dist

    group = ddp.process_group
    world = dist.get_world_size(group)
    document = {"world": world, "backend": str(dist.get_backend(group))}
    document["bucket_bytes"] = int(getattr(ddp, "bucket_bytes_cap", 0)) or None
    if world < 2 or world != dist.get_world_size():
        return {**document, "no_link": "the model is not exchanged among all ranks"}
    if _ranks_here(folder) != world:
        return {**document, "no_link": "not all ranks are on this host and watched"}
    tensors = [p for p in ddp.parameters() if p.requires_grad]
    device = tensors[0].device
    most = sum(p.numel() * p.element_size() for p in tensors)
    sizes = [size for size in SIZES if size <= max(most, 1 << 20)]
    link = []
    for size in sizes:
        values = torch.zeros(size // 4, device=device)
        link.append([size, [_time_reduction(dist, group, values) for _ in range(7)][2:]])
    return {**document, "link": link}


def _time_reduction(dist: Any, group: Any, values: Any) -> float:
    """Reduce a tensor when all ranks are there, and return how long it took, s."""
    module = accelerator.device_module(sys.modules["torch"], values.device.type)
    dist.barrier(group)
    begin = time.perf_counter()
    if module is None:  # a CPU
        dist.all_reduce(values, group=group)
        return time.perf_counter() - begin
    first, last = module.Event(enable_timing=True), module.Event(enable_timing=True)
    first.record()
    dist.all_reduce(values, group=group)
    values[:1].clone()  # the current stream waits for the exchange where its result is used
    last.record()
    module.synchronize()
    return float(first.elapsed_time(last)) / 1e3


def _ranks_here(folder: str) -> int:
    """Count the watched ranks of this host; each has written its note before it wrapped a model."""
    host, ranks = socket.gethostname(), set()
    for place in glob.glob(os.path.join(glob.escape(folder), "*.rank.json")):
        with open(place, encoding="utf-8") as file:
            note = json.load(file)
        if note.get("host") == host and note.get("backend"):
            ranks.add(note["rank"])
    return len(ranks)
