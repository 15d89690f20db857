"""What held memory when the job died for lack of it.

Nothing is intercepted: the exception has left the script and was printed before this runs, at the
end of the interpreter, while the traceback still holds the frames with their tensors. The tensors
of the same variables were measured after a few steps. Goes to ``PID.oom.json``.
"""

from __future__ import annotations

import atexit
import gc
import json
import math
import os
import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

from ...core import fault_containment
from ...core.events import Events
from ...core.listener import Listener
from ...core.loaded_modules import is_installed
from ...core.own_files import FOLDER
from ...core.thread_stacks import read_variables
from . import accelerator
from .looks.step_tape import DEEPEST, find_tensors

UNITS = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SIZE = r"([\d.]+) (bytes|B|KiB|MiB|GiB|TiB)"
REQUESTED = re.compile(rf"(?:tried|unable) to allocate {SIZE}", re.IGNORECASE)
CAPACITY = re.compile(rf"total capacity of {SIZE}")
ALLOCATED = re.compile(rf"{SIZE} is allocated by PyTorch")
UNUSED = re.compile(rf"{SIZE} is reserved (?:by PyTorch )?but unallocated")
SIGNS = ("out of memory", "can't allocate memory")
"""of the accelerators' allocators, and of the CPU's, which raises a plain ``RuntimeError``; Python
and NumPy raise a ``MemoryError``"""
LARGEST, LEAST_SHARE = 5, 1e-3
"""variables that are named, and the share of all tensors below which one is not"""
MOST_PARTS = 16
"""tensors of a batch that are compared between steps"""


Place = tuple[str, str, str]
"""file, function and name of a variable"""
Node = Any
"""``torch.autograd.graph.Node``"""
OUTSIDE = "outside of modules"


class MemoryLevels(Listener):
    """What is held at the ends of a few steps: by the allocator of the device, or, on the CPU, by
    the process; and the shapes of tensors in variables."""

    listener = "memory levels"

    def __init__(self, events: Events) -> None:
        self.events = events
        self.rows: list[tuple[int, int]] = []
        """steps that were done, and bytes"""
        self.peak = 0
        """the most that these steps held, bytes"""
        self.shapes: dict[Place, list[int]] = {}
        """the largest of each variable"""

    def on_look(self) -> None:
        """A step has ended."""
        kind = self.events.recorder.facts.get("device") or "cpu"
        module = accelerator.device_module(sys.modules["torch"], kind) if kind != "cpu" else None
        if module is not None and hasattr(module, "memory_allocated"):
            self.rows.append((self.events.steps, int(module.memory_allocated())))
            self.peak = int(module.max_memory_allocated())
        elif kind == "cpu":
            held, self.peak = read_process()
            self.rows.append((self.events.steps, held))
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            for place, tensor in _variables_of(frame):
                shape = list(tensor.shape)
                self.shapes[place] = max(shape, self.shapes.get(place, []), key=_count_elements)
            frame = frame.f_back


def _count_elements(shape: list[int]) -> int:
    return math.prod(shape) if shape else 0


def _variables_of(frame: FrameType) -> Iterator[tuple[Place, Any]]:
    """The variables of a frame that hold a tensor, or a batch of some."""
    if frame.f_code.co_filename.startswith(FOLDER):
        return
    for name, value in read_variables(frame).items():
        place = frame.f_code.co_filename, frame.f_code.co_name, name
        parts = list(value.items()) if isinstance(value, dict) else [("", value)]
        if isinstance(value, (list, tuple)):
            parts = list(enumerate(value[:MOST_PARTS]))
        for key, part in parts[:MOST_PARTS]:
            if hasattr(part, "untyped_storage"):
                yield (*place[:2], f"{name}[{key!r}]" if key != "" else name), part


def read_process() -> tuple[int, int]:
    """What the process holds and the most that it held, bytes: of its address space where that has
    a limit (``RLIMIT_AS``), else of the host's memory."""
    keys = ("VmRSS", "VmHWM") if address_limit() is None else ("VmSize", "VmPeak")
    with open("/proc/self/status", encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file)
    held, peak = (int(rows[key].split()[0]) << 10 for key in keys)
    return held, peak


def address_limit() -> int | None:
    """The limit of the process's address space, bytes."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def install_death_notes(events: Events) -> Callable[[], None]:
    """Describe an error of memory at the end of the process. Returns a function that cancels."""
    folder, levels = events.recorder.folder, MemoryLevels(events)
    events.add_listener(levels)

    def write_notes() -> None:
        _write_notes(
            folder,
            {"steps": events.steps, "levels": levels.rows, "peak": levels.peak or None},
            levels.shapes,
        )

    def describe() -> None:
        fault_containment.run_contained(folder, "out of memory", write_notes)

    atexit.register(describe)
    return lambda: atexit.unregister(describe)


def is_out_of_memory(error: object) -> bool:
    """Whether an exception says that an allocator had no memory."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    text = str(error).lower()
    return bool(kinds.intersection(("OutOfMemoryError", "MemoryError"))) or (
        "RuntimeError" in kinds and any(sign in text for sign in SIGNS)
    )


def read_message(text: str) -> dict[str, int]:
    """The sizes in an allocator's message, bytes."""
    patterns = {"requested": REQUESTED, "capacity": CAPACITY, "allocated": ALLOCATED,
                "unused": UNUSED}  # fmt: skip
    found = {name: pattern.search(text) for name, pattern in patterns.items()}
    return {name: round(float(m[1]) * UNITS[m[2]]) for name, m in found.items() if m}


def _write_notes(
    folder: str, known: dict[str, Any], shapes: dict[Place, list[int]] | None = None
) -> None:
    error = getattr(sys, "last_value", None)
    torch: Any = sys.modules.get("torch")
    if torch is None or not is_out_of_memory(error):
        return
    notes = {"error": type(error).__name__, **known, **read_message(str(error))}
    frames = _frames_of(error)
    notes |= _describe_place(torch, frames) | _count_owners(torch, frames)
    limit = address_limit()
    if notes["device"] == "cpu" and limit is not None:
        notes |= {"capacity": limit, "allocated": read_process()[0]}
    now = {
        place: list(tensor.shape) for frame, _ in frames for place, tensor in _variables_of(frame)
    }
    notes["grown"] = [
        [place[2], shape, now[place]]
        for place, shape in (shapes or {}).items()
        if _count_elements(now.get(place, [])) > _count_elements(shape)
    ]
    path = os.path.join(folder, f"{os.getpid()}.oom.json")
    with open(path + "~", "w", encoding="utf-8") as file:
        json.dump(notes, file)
    os.replace(path + "~", path)


def _frames_of(error: Any) -> list[tuple[FrameType, int]]:
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames


def _describe_place(torch: Any, frames: list[tuple[FrameType, int]]) -> dict[str, Any]:
    """The last line of the user's own program, and the module whose forward pass it was."""
    place: dict[str, Any] = {}
    modules: list[Any] = []
    for frame, line in frames:
        path = frame.f_code.co_filename
        if not path.startswith(FOLDER) and not is_installed(path) and os.path.exists(path):
            place = {"file": path, "line": line, "function": frame.f_code.co_name}
        own = read_variables(frame).get((*frame.f_code.co_varnames, "")[0])
        if frame.f_code.co_name == "forward" and isinstance(own, torch.nn.Module):
            modules.append(own)
    if modules:
        names = {id(part): name for name, part in modules[0].named_modules()}
        name = names.get(id(modules[-1]), "")
        place["module"] = " ".join(filter(None, (name, f"({type(modules[-1]).__name__})")))
        place["evaluating"] = not modules[0].training
    place["backward"] = any(frame.f_code.co_name == "backward" for frame, _ in frames)
    return place


def _count_owners(torch: Any, frames: list[tuple[FrameType, int]]) -> dict[str, Any]:
    kinds = (torch.Tensor, torch.optim.Optimizer, torch.nn.Module)
    alive = [one for one in gc.get_objects() if issubclass(type(one), kinds)]
    optimizers = [one for one in alive if isinstance(one, torch.optim.Optimizer)]
    updated = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    tensors = [one for one in alive if isinstance(one, torch.Tensor)]
    parameters = updated + [one for one in tensors if isinstance(one, torch.nn.Parameter)]
    device = next((p.device.type for p in parameters), "cpu")
    seen: set[int] = set()
    counted = {
        "device": device,
        "parameters": _count_bytes(parameters, device, seen),
        "gradients": _count_bytes([p.grad for p in parameters if p.grad is not None], device, seen),
        "optimizer": _count_bytes(
            list(find_tensors([list(s.values()) for o in optimizers for s in o.state.values()])),
            device, seen,
        ),
    }  # fmt: skip
    own = set(seen)
    counted["largest"] = _list_largest(torch, frames, own, device)
    models = [one for one in alive if isinstance(one, torch.nn.Module)]
    counted["activations"] = list(count_activations(torch, models, tensors, device, seen).items())
    counted["others"] = _count_bytes(tensors, device, seen)
    return counted


def _count_bytes(tensors: list[Any], device: str, seen: set[int]) -> int:
    total = 0
    for tensor in tensors:
        with suppress(RuntimeError, NotImplementedError, AttributeError):
            storage = tensor.untyped_storage()
            if tensor.device.type == device and storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                total += storage.nbytes()
    return total


def _list_largest(
    torch: Any, frames: list[tuple[FrameType, int]], own: set[int], device: str
) -> list[list[Any]]:
    """The largest variables of the frames that hold tensors: name, shape (of the first), bytes."""
    found: dict[int, list[Any]] = {}
    for frame, _ in frames:
        for name, value in read_variables(frame).items():
            tensors = [t for t in find_tensors(value, DEEPEST - 2) if t.device.type == device]
            with suppress(RuntimeError, NotImplementedError):
                size = _count_bytes(tensors, device, set(own))
                if size:
                    many = len(tensors) > 1
                    what = f"{name}, {len(tensors)} tensors of" if many else name
                    key = id(value) if many else tensors[0].untyped_storage().data_ptr()
                    found.setdefault(key, [what, list(tensors[0].shape), size])
    least = LEAST_SHARE * sum(row[2] for row in found.values())
    rows = [row for row in found.values() if row[2] >= least]
    return sorted(rows, key=lambda row: -row[2])[:LARGEST]


def count_activations(
    torch: Any, models: list[Any], tensors: list[Any], device: str, seen: set[int]
) -> dict[str, int]:
    """Module -> bytes of the storages on the device that are not ``seen``; these are added to it.
    A node belongs to the module of the parameters that it takes, else to that of its input."""
    inner = {id(part) for model in models for part in model.children()}
    owners = {
        id(parameter): f"{name or 'model'} ({type(part).__name__})"
        for model in models
        if id(model) not in inner
        for name, part in model.named_modules()
        for parameter in part.parameters(recurse=False)
    }
    found: dict[str, int] = {}
    owned: dict[Node, str] = {}
    for root in [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]:
        for node in _sort_nodes(root, owned):
            before = [parent for parent, _ in node.next_functions if parent is not None]
            taken = before + [p for parent in before for p, _ in parent.next_functions if p]
            own = [owners.get(id(getattr(parent, "variable", None)), "") for parent in taken]
            own += [owned.get(parent, "") for parent in before]
            owned[node] = next(filter(None, own), "")
            if size := _count_bytes(_saved_by(node), device, seen):
                name = owned[node] or OUTSIDE
                found[name] = found.get(name, 0) + size
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def _sort_nodes(root: Node, known: dict[Node, str]) -> list[Node]:
    """The nodes from which a graph was made, each after those that it takes."""
    waiting, opened, order = [root], set[Node](), []
    while waiting:
        node = waiting.pop()
        if node in known:
            continue
        if node in opened:
            known[node] = ""
            order.append(node)
            continue
        opened.add(node)
        waiting.append(node)
        waiting += [p for p, _ in node.next_functions if p is not None and p not in opened]
    return order


def _saved_by(node: Node) -> list[Any]:
    saved: list[Any] = []
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            with suppress(RuntimeError):  # its backward pass has given it back
                saved += [getattr(node, name)]
    parts = [p for one in saved for p in (one if isinstance(one, (list, tuple)) else [one])]
    kept = [one.data for one in parts if getattr(one, "unpack_hook", node) is None]
    return list(find_tensors(kept))
