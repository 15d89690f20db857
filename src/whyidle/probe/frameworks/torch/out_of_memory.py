"""What held memory when the job died for lack of it.

Nothing is intercepted: the exception has left the script and was printed before this runs, at the
end of the interpreter, while the traceback still holds the frames with their tensors. Goes to
``PID.oom.json``.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

from ...core import fault_containment
from ...core.events import Events
from ...core.loaded_modules import is_installed
from ...core.own_files import FOLDER
from ...core.thread_stacks import read_variables
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


def install_death_notes(events: Events) -> None:
    """Describe an error of memory at the end of the process."""
    folder = events.recorder.folder
    atexit.register(
        fault_containment.run_contained, folder, "out of memory", lambda: _write_notes(folder)
    )


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


def _write_notes(folder: str) -> None:
    error = getattr(sys, "last_value", None)
    torch: Any = sys.modules.get("torch")
    if torch is None or not is_out_of_memory(error):
        return
    frames = _frames_of(error)
    notes = {"error": type(error).__name__, **read_message(str(error))}
    notes |= _describe_place(torch, frames) | _count_owners(torch, frames)
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
    kinds = (torch.Tensor, torch.optim.Optimizer)
    alive = [one for one in gc.get_objects() if issubclass(type(one), kinds)]
    optimizers = [one for one in alive if isinstance(one, torch.optim.Optimizer)]
    updated = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    tensors = [one for one in alive if isinstance(one, torch.Tensor)]
    parameters = updated + [one for one in tensors if isinstance(one, torch.nn.Parameter)]
    device = next((p.device.type for p in parameters), "cpu")
    states = list(find_tensors([list(s.values()) for o in optimizers for s in o.state.values()]))
    gradients = [p.grad for p in parameters if p.grad is not None]
    seen: set[int] = set()
    counted = {
        "device": device,
        "parameters": _count_bytes(parameters, device, seen),
        "gradients": _count_bytes(gradients, device, seen),
        "optimizer": _count_bytes(states, device, seen),
    }
    counted["largest"] = _list_largest(frames, seen, device)
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
    frames: list[tuple[FrameType, int]], own: set[int], device: str
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
