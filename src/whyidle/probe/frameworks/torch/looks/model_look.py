"""``--look model``: which modules take the time of a step, how far they are from what the device
can do, and what a step would take with switches of the whole model.

One micro-batch is computed again at a step boundary. All that is measured goes
to ``PID.look-model.json``; ``analysis.device.model_account`` reads it.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from ....core.events import Events
from ....core.listener import Listener
from ....core.recorder import clock_ns
from ..accelerator import free_memory
from .memory_look import FIRST, device_of
from .repeated_pass import RepeatedPass, check_modules, restore_job
from .step_tape import NotReplayableError, StepTape, find_tensors

TOO_SHORT = "the job ended before the fifth step of a PyTorch optimizer (Keras optimizers do not "
"count)"
ROUNDS, MOST_ROUNDS, ROUNDS_S = 7, 13, 2.0
"""timed passes with and without a swap, in turn, and as many more as so many seconds allow"""
TIMES = (4, 16)
"""multiples of the batch whose passes are timed"""
BATCH_ROUNDS = 4
BATCHES_S = 10.0
"""seconds that the passes of one batch may take"""
SIZE = 1024
"""rows of the matrices whose product shows what the device can compute"""
COPIED = 1 << 26
"""bytes of the copy that shows its memory's bandwidth"""


class ModelLook(Listener):
    """Makes the look in one training process, after one step whose calls are recorded."""

    listener = "model look"
    wants_steps = wants_detail = True

    def __init__(self, events: Events) -> None:
        self.events = events
        self.seen = 0
        self.tape: StepTape | None = None
        self.found: dict[str, Any] = {"state": TOO_SHORT}
        self._publish()

    def _publish(self) -> None:
        self.events.recorder.documents["look-model.json"] = self.found

    def stop_listening(self) -> None:
        """Stop recording the step."""
        if self.tape is not None:
            self.tape.stop()
        self.wants_steps, self.wants_detail, self.tape = False, False, None

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """The first backward pass ends the recording of calls."""
        if self.tape is not None:
            self.tape.note_loss(args[:1])

    def on_step(self, optimizer: Any) -> None:
        """Record one step, and look after it."""
        if optimizer is None or id(optimizer) != self.events.lead or not self.wants_steps:
            return
        torch: Any = sys.modules["torch"]
        self.seen += 1
        # a look at memory records the step before
        if self.seen <= FIRST or torch.autograd._profiler_enabled():
            return
        rank = self.events.recorder.facts.get("rank") or os.environ.get("RANK") or "0"
        try:
            if str(rank) != "0":
                raise NotReplayableError("another rank is measured instead")
            if self.tape is None:
                self.tape = StepTape(torch, device=device_of(optimizer).type)
                self.tape.start()
                return
            self._look(torch, optimizer)
        except NotReplayableError as reason:
            self.found = {**self.found, "state": str(reason)}
        self._publish()
        self.stop_listening()

    def _look(self, torch: Any, optimizer: Any) -> None:
        assert self.tape is not None
        self.tape.stop()
        begin = clock_ns()
        look = ModelPass(torch, self.tape, optimizer)
        try:
            look.measure()
        except NotReplayableError as reason:
            look.found["state"] = str(reason)
        except Exception as error:  # of the framework or of the script's own loss
            text = f"{type(error).__name__}: {error}"[:400]
            look.found["state"] = f"the step could not be computed again ({text})"
        self.found = {**look.found, "windows": [(begin, clock_ns())]}


class Swap(NamedTuple):
    """A switch of the whole model: ``kind`` names it, ``keeps`` says whether results are the same
    apart from rounding. ``apply`` makes the change while it is open; the model's modules and
    parameters are the same objects before and after it."""

    kind: str
    keeps: bool
    apply: Callable[[], AbstractContextManager[None]]


def find_swaps(torch: Any, modules: list[Any], device: Any, *, narrow: bool = False) -> list[Swap]:
    """List the swaps of a model. ``narrow``: it computes under autocast already."""
    swaps = []
    weights = [m.weight for m in modules if isinstance(m, torch.nn.Conv2d)]
    if not all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights):
        swaps.append(Swap("channels_last", True, lambda: _channels_last(torch, modules)))
    if not narrow:
        apply_autocast = lambda: torch.autocast(device.type, dtype=torch.bfloat16)  # noqa: E731
        swaps.append(Swap("bfloat16", False, apply_autocast))
    return swaps


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


class ModelPass(RepeatedPass):
    """The measurements, at a step boundary."""

    def measure(self) -> None:
        """Measure everything.

        Raises:
            NotReplayableError: the step cannot be computed again.
        """
        torch, tape = self.torch, self.tape
        tape.keep_needed()
        self._list_modules(tape.modules())
        check_modules(self.modules)
        size = self._batch_size()
        names = [[self.names[id(module)], type(module).__name__] for module in self.modules]
        self.found |= {"batch": size, "modules": names}
        leaves = self._fresh_leaves()
        with restore_job(torch, self.modules):
            self.found["passes"] = [self._time_pass(leaves) for _ in range(3)][1:]
            self.pace = max(self.found["passes"])
            self.found["batches"] = list(self._time_batches(leaves)) if size else []
            self.found["calls"] = self._observe_calls(leaves)
            self.found |= self._measure_device()
            self.found["swaps"] = self._time_swaps(leaves)

    # -- larger batches -----------------------------------------------------------------------

    def _time_batches(self, leaves: dict[int, Any]) -> Iterator[list[float]]:
        """Multiples of the batch, whose samples repeat those of the job, and how many times as long
        a pass takes, in turn with passes of the job's own batch; as far as time and memory allow,
        and the step has no sizes of its own."""
        kept, batch = self._saved_bytes(leaves), self._batch_leaves()
        for times in TIMES:
            passes = BATCH_ROUNDS * (times + 1)
            slow = passes * self.pace > BATCHES_S or not self._has_time(passes)
            if slow or 2 * times * kept > free_memory(self.torch, self.device.type):
                return
            grown = {number: self.torch.cat([leaves[number]] * times) for number in batch}
            grown = leaves | {number: tensor.detach() for number, tensor in grown.items()}
            try:
                pairs = [
                    (self._time_pass(leaves), self._time_pass(grown)) for _ in range(BATCH_ROUNDS)
                ]
            except (RuntimeError, ValueError, TypeError, IndexError):  # sizes that do not grow
                return
            before, after = map(min, zip(*pairs[1:], strict=True))
            yield [times, after / before]

    def _saved_bytes(self, leaves: dict[int, Any]) -> int:
        """Bytes that one pass keeps for its backward pass, without parameters."""
        own, kept = {p.data_ptr() for p in self.parameters}, dict[int, int]()

        def note(tensor: Any) -> Any:
            if hasattr(tensor, "untyped_storage") and tensor.data_ptr() not in own:
                storage = tensor.untyped_storage()
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with self.torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            self._pass(leaves)
        return sum(kept.values())

    # -- modules ------------------------------------------------------------------------------

    def _observe_calls(self, leaves: dict[int, Any]) -> list[list[Any]]:
        """Of each module without others inside: calls, seconds forward and backward, FLOPs of the
        forward pass, and bytes that it must read and write at least."""
        timed, counted = _CallTable(self), _CallTable(self)
        with timed.watch(time.perf_counter, wait=True):
            self._time_pass(leaves)
        with self._count_flops() as flops, counted.watch(flops, wait=False):
            self._pass(leaves)
        rows = []
        for number, times in timed.rows.items():
            work = counted.rows.get(number)
            rows.append([number, times.calls, times.forward, times.backward,
                         work.forward if work else 0.0, times.moved])  # fmt: skip
        return rows

    @contextmanager
    def _count_flops(self) -> Iterator[Callable[[], float]]:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            yield lambda: float(counter.get_total_flops())

    # -- the device ---------------------------------------------------------------------------

    def _measure_device(self) -> dict[str, Any]:
        """FLOPs per second of a matrix product, and bytes per second of a copy."""
        torch, kind = self.torch, {"device": self.device, "dtype": self.parameters[0].dtype}
        kind["dtype"] = self.tape.autocast or kind["dtype"]
        a, b = torch.ones(SIZE, SIZE, **kind), torch.ones(SIZE, SIZE, **kind)
        source = torch.ones(COPIED // 4, device=self.device)
        target = torch.empty_like(source)
        product = min(self._time_work(lambda: a @ b) for _ in range(3))
        copy = min(self._time_work(lambda: target.copy_(source)) for _ in range(3))
        return {"peak_flops": 2.0 * SIZE**3 / product, "peak_bytes": 2.0 * COPIED / copy}

    # -- swaps --------------------------------------------------------------------------------

    def _time_swaps(self, leaves: dict[int, Any]) -> list[dict[str, Any]]:
        narrow = self.tape.autocast is not None
        swaps = find_swaps(self.torch, self.modules, self.device, narrow=narrow)
        return [self._time_swap(swap, leaves) for swap in swaps]

    def _time_swap(self, swap: Swap, leaves: dict[int, Any]) -> dict[str, Any]:
        """Passes with and without a swap, in turn, s."""
        row: dict[str, Any] = {"kind": swap.kind, "keeps": swap.keeps, "pairs": []}
        begin = time.monotonic()
        try:
            for turn in range(MOST_ROUNDS):
                if not self._has_time(4):
                    break
                if turn >= ROUNDS and time.monotonic() > begin + ROUNDS_S:
                    break
                plain = self._time_again(leaves)
                with swap.apply():
                    changed = self._time_again(leaves)
                if turn:  # the first one chooses kernels and gets memory
                    row["pairs"].append([plain, changed])
        except (RuntimeError, ValueError, TypeError) as error:  # it does not fit this model
            row["failed"] = f"{type(error).__name__}: {error}"[:200]
        return row

    def _time_again(self, leaves: dict[int, Any]) -> float:
        """The second of two passes, which finds memory and caches as a pass of its own kind left
        them, as in a job."""
        self._pass(leaves)
        return self._time_pass(leaves)


class _Calls:
    """What the calls of one module take: seconds, or FLOPs."""

    def __init__(self) -> None:
        self.calls, self.forward, self.backward, self.moved = 0, 0.0, 0.0, 0


class _CallTable:
    """The calls of modules that contain no others, by their number."""

    def __init__(self, owner: ModelPass) -> None:
        self.owner = owner
        self.numbers = {
            id(module): number
            for number, module in enumerate(owner.modules)
            if not any(True for _ in module.children())
        }
        self.rows: dict[int, _Calls] = {}
        self._open: list[float] = []
        self._backward: list[tuple[float, int]] = []

    @contextmanager
    def watch(self, read: Callable[[], float], *, wait: bool) -> Iterator[None]:
        """Add up what ``read`` gains in each module. Its backward pass lasts from the gradient of
        its result to that of the next module's."""
        from torch.nn.modules import module as home

        settle = self.owner._wait if wait else lambda: None

        def enter(module: Any, _: Any) -> None:
            if id(module) in self.numbers:
                settle()
                self._open.append(read())

        def leave(module: Any, args: Any, result: Any) -> None:
            number = self.numbers.get(id(module))
            if number is None or not self._open:
                return
            settle()
            row = self.rows.setdefault(number, _Calls())
            row.calls += 1
            row.forward += read() - self._open.pop()
            tensors = [*find_tensors((args, result)), *module.parameters()]
            row.moved += sum(t.numel() * t.element_size() for t in tensors)
            for tensor in find_tensors(result):
                if tensor.requires_grad:
                    tensor.register_hook(lambda _: note(number))

        def note(number: int) -> None:
            settle()
            self._backward.append((read(), number))

        hooks = [
            home.register_module_forward_pre_hook(enter),
            home.register_module_forward_hook(leave),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            settle()
            self._close_backward(read())

    def _close_backward(self, end: float) -> None:
        moments = [*self._backward, (end, -1)]
        for (begin, number), (until, _) in itertools.pairwise(moments):
            if number in self.rows:
                self.rows[number].backward += until - begin
