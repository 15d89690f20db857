"""The next batch is copied to the device, on a second stream, while the present one is computed.

The loader gives the script the same tensors of the host as ever. Which parts of a batch the script
moves, and where to, is learned from the batch before: ``x.to(device)`` or ``x.cuda()``, nothing
else asked for. Of a batch that the loader has ready already, these parts are copied ahead, and the
script's own call is given the copy; the stream that it computes on waits for it. Batches are drawn
and made when they always were, so neither order nor random numbers change.

Left alone: what no worker has made ahead, or the loader has not pinned (such a copy holds up the
host); batches of types of their own; what the script has changed before it moves it (seen by the
tensor's version, and in some batches by its bytes: memory can be written past PyTorch); and jobs
whose device has little memory left.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from . import KnobSession, Wrapper

KNOB = "loader.device_prefetch"
TIMES = 8
"""the device must have so many times the batch free: streams do not share what they let go"""
PROVE, EVERY = 4, 256
"""so many batches at first, and then one of so many, are compared byte by byte"""
LOOK = 64
"""the memory that is free is asked for before one of so many batches"""
DEPTH, BREADTH = 4, 64
Path = tuple[Any, ...]


class Copy(NamedTuple):
    """One tensor of the batch to come. ``before`` are the bytes that were copied, where they are to
    be compared."""

    version: int
    copied: Any
    event: Any
    before: Any


class Line:
    """One iterator's batches: which are ready, and what of them is copied already."""

    def __init__(self) -> None:
        self.ready: dict[int, Any] = {}
        """filled by the thread that pins, emptied by the one that takes"""
        self.moves: dict[Path, Any] = {}
        """what the script moves, and where to"""
        self.number = -1
        self.copies: dict[Path, Copy] = {}
        """of the batch of that number"""
        self.iterator: Callable[[], Any] = lambda: None

    def arrived(self, number: Any, data: Any) -> None:
        """A batch is pinned. Other tokens tell of a new epoch."""
        if type(number) is int:
            self.ready[number] = data
        else:
            self.ready.clear()

    def given(self, iterator: Any, data: Any) -> dict[Path, Copy]:
        """The script is given a batch: what of it is copied already."""
        self.iterator = weakref.ref(iterator)
        numbers = [n for n, one in list(self.ready.items()) if one is data]
        copies = self.copies if numbers == [self.number] else {}
        for number in numbers:
            self.ready.pop(number, None)
        self.number, self.copies = -1, {}
        return copies

    def next(self) -> tuple[int, Any]:
        """Number and content of the batch that comes next; no content where it is not there."""
        iterator = self.iterator()
        number = -1 if iterator is None else iterator._rcvd_idx
        return number, self.ready.get(number)


class Arrivals:
    """Stands for the queue of pinned batches where they are put in."""

    def __init__(self, queue: Any, line: Line) -> None:
        self.queue = queue
        self.line = line

    def put(self, item: Any, *args: Any, **kwargs: Any) -> None:
        """Told of first: once it is in the queue it may be taken at any time."""
        self.line.arrived(*item)
        self.queue.put(item, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queue, name)


class Part(NamedTuple):
    """Of a batch that the script has now, and its copy where there is one."""

    source: Callable[[], Any]
    line: Line
    path: Path
    copy: Copy | None


class Prefetch:
    """What one process copies ahead. Nothing but the thread that takes the batches touches the
    device: another one might disturb a graph that is being captured."""

    def __init__(self, hand: KnobSession, move: Callable[..., Any]) -> None:
        self.hand = hand
        self.move = move
        self.lines: weakref.WeakKeyDictionary[Any, Line] = weakref.WeakKeyDictionary()
        self.open: list[Line] = []
        self.held: dict[int, Part] = {}
        """by the tensor's id"""
        self.streams: dict[Any, Any] = {}
        self.batches = 0
        self.off = False

    def stop(self, why: str) -> None:
        """Copy nothing ahead any more."""
        self.off, self.held = True, {}
        self.hand.decline_knobs([KNOB], why)

    def line(self, queue: Any) -> Line:
        """That of a queue of pinned batches."""
        return self.lines.setdefault(queue, Line())

    def handed(self, iterator: Any, data: Any) -> None:
        """The script is given a batch."""
        queue = getattr(iterator, "_data_queue", None)
        line = self.lines.get(queue) if queue is not None else None
        if line is None:
            if KNOB not in self.hand.declined:
                self.hand.decline_knobs([KNOB], _unfit(iterator))
            return
        copies = line.given(iterator, data)
        self._forget(line)
        parts = list(_parts(data))
        if not parts:
            self.stop(f"its batches are no tensors, lists or dicts of them: {_name(data)}")
            return
        for path, one in parts:
            self.held[id(one)] = Part(weakref.ref(one), line, path, copies.get(path))
        self.open = [one for one in self.open if one.iterator() is not None and one is not line]
        self.open.append(line)
        self._begin(line)

    def _forget(self, line: Line) -> None:
        """The batch before: what of it was copied for nothing is not copied again."""
        for number, part in list(self.held.items()):
            if part.line is line:
                del self.held[number]
                if part.copy is not None:
                    line.moves.pop(part.path, None)

    def stepped(self, _: int) -> None:
        """Whatever was not there when the last batch was taken may be by now."""
        for line in self.open if not self.hand.is_child else ():
            self._begin(line)

    def _begin(self, line: Line) -> None:
        """Copy the batch that comes next, if it is there and not copied yet."""
        if self.off or line.copies or not line.moves:
            return
        number, data = line.next()
        wanted = [(one, line.moves[path], path) for path, one in _parts(data) if path in line.moves]
        wanted = [each for each in wanted if each[0].is_pinned()]
        if not wanted or not self._may(wanted):
            return
        line.number = number
        look = self.batches < PROVE or self.batches % EVERY == 0
        self.batches += 1
        line.copies = {path: self._copy(one, device, look) for one, device, path in wanted}

    def _may(self, wanted: list[tuple[Any, Any, Path]]) -> bool:
        """Whether there is memory for it, and nothing is being captured."""
        size = sum(one.nbytes for one, _, _ in wanted)
        for device in {device for _, device, _ in wanted}:
            module = _module(device)
            if getattr(module, "is_current_stream_capturing", bool)():
                return False
            told = getattr(module, "mem_get_info", None)
            if told and self.batches % LOOK == 0 and told(device)[0] < TIMES * size:
                self.stop("the device has too little memory free for one more batch")
                return False
        return True

    def _copy(self, one: Any, device: Any, look: bool) -> Copy:
        import torch

        module = _module(device)
        stream = self.streams.get(device)
        if stream is None:
            stream = self.streams[device] = module.Stream(device=device)
        before = one.clone() if look else None
        with torch.inference_mode(False), module.stream(stream):  # it may be trained on
            copied = self.move(one, device, non_blocking=True)
            event = module.Event()
            event.record(stream)
        return Copy(one._version, copied, event, before)

    def asked(self, one: Any, args: Any, kwargs: Any) -> Any:
        """The copy of a tensor that the script moves; None where there is none to give."""
        part, told = self.held[id(one)], target(args, kwargs)
        if part.source() is not one or told is None:
            return None
        device, wait = told
        part.line.moves[part.path] = device
        copy = part.copy
        self.held[id(one)] = part._replace(copy=None)  # asked again, it is to be another tensor
        if copy is None or copy.copied.device != device or copy.version != one._version:
            return None
        if copy.before is not None and not same_bytes(copy.before, one):
            self.stop("the script changes batches, past PyTorch, before it moves them")
            return None
        current = _module(device).current_stream(device)
        current.wait_event(copy.event)
        copy.copied.record_stream(current)
        if wait:
            copy.event.synchronize()
        self.hand.record_applied(KNOB)
        return copy.copied


def turn(hand: KnobSession) -> None:
    """Copy the next batch of every loader that pins ahead."""
    import torch
    from torch.utils.data import dataloader
    from torch.utils.data._utils import pin_memory as home

    prefetch = Prefetch(hand, torch.Tensor.to)

    def make_loop(original: Callable[..., Any]) -> Callable[..., Any]:
        def loop(source: Any, queue: Any, *args: Any, **kwargs: Any) -> Any:
            line = hand.run_contained([KNOB], prefetch.line, queue)
            arrives = queue if line is None else Arrivals(queue, line)
            return original(source, arrives, *args, **kwargs)

        return loop

    def make_next(original: Callable[..., Any]) -> Callable[..., Any]:
        def following(self: Any) -> Any:
            data = original(self)
            if not prefetch.off and not hand.is_child:
                hand.run_contained([KNOB], prefetch.handed, self, data)
            return data

        return following

    hand.replace_function(home, "_pin_memory_loop", make_loop)
    hand.replace_function(dataloader._BaseDataLoaderIter, "__next__", make_next)
    _answer_moves(hand, prefetch)
    hand.undo.append(lambda: setattr(prefetch, "off", True))
    hand.after_steps(prefetch.stepped)


def _answer_moves(hand: KnobSession, prefetch: Prefetch) -> None:
    """Have the script's moves of tensors that are copied ahead give these copies."""
    import torch

    def maker(before: tuple[str, ...]) -> Wrapper:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def move(self: Any, *args: Any, **kwargs: Any) -> Any:
                if id(self) in prefetch.held:
                    given = (*before, *args)
                    found = hand.run_contained([KNOB], prefetch.asked, self, given, kwargs)
                    if found is not None:
                        return found
                return original(self, *args, **kwargs)

            return move

        return make

    hand.replace_function(torch.Tensor, "to", maker(()))
    hand.replace_function(torch.Tensor, "cuda", maker(("cuda",)))


def _unfit(iterator: Any) -> str:
    if not getattr(iterator, "_num_workers", 0):
        return "without workers the next batch is not made before it is asked for"
    return "the loader does not pin its batches, or there is no accelerator to copy them to"


def _parts(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Tensors of the host in a batch, and how they are reached."""
    import torch

    if type(data) is torch.Tensor:
        if data.device.type == "cpu" and not data.requires_grad:
            yield path, data
    elif len(path) < DEPTH and isinstance(data, Mapping):
        for key in list(data)[:BREADTH]:
            yield from _parts(data[key], (*path, key))
    elif len(path) < DEPTH and isinstance(data, (list, tuple)):
        for number, one in enumerate(data[:BREADTH]):
            yield from _parts(one, (*path, number))


def _name(data: Any) -> str:
    return f"{type(data).__module__}.{type(data).__qualname__}"


def _module(device: Any) -> Any:
    """``torch.cuda``, or what stands for it; None where nothing does."""
    import torch

    return getattr(torch, device.type, None)


def target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool] | None:
    """Where to, and whether the script waits for it; None where more is asked for than a move from
    the host to an accelerator."""
    import torch

    named = dict(kwargs)
    given = [*args]
    if given[:1] == ["cuda"] and len(given) > 1:  # .cuda(device)
        given = given[1:]
    if not given and "device" in named:
        given = [named.pop("device")]
    wait = not named.pop("non_blocking", False)
    if named or len(given) != 1 or type(given[0]) not in (str, int, torch.device):
        return None
    try:
        device = torch.device(given[0])
    except RuntimeError:  # the script's own mistake, which is told as ever
        return None
    if device.type in ("cpu", "meta") or not hasattr(_module(device), "Stream"):
        return None
    if device.index is None:
        device = torch.device(device.type, _module(device).current_device())
    return device, wait


def same_bytes(one: Any, other: Any) -> bool:
    """Whether two tensors of a type and shape hold the same, bit by bit."""
    import torch

    flat = [each.contiguous().reshape(-1).view(torch.uint8) for each in (one, other)]
    return torch.equal(*flat)
