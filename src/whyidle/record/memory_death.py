"""The report on a job that died for lack of memory: what held it, at which line, and the cheapest
change that would have fitted, as far as that is known."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from whyidle.analysis.memory.memory_plan import USABLE
from whyidle.model.cause import MOSTLY
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.memory import MemoryAccount, MemoryDeath, MemoryOption, Part
from whyidle.model.memory_look import DeathNotes
from whyidle.model.number_text import format_bytes
from whyidle.readers.probe.loader_records import read_document
from whyidle.readers.probe.process_facts import read_document as read_as

EXPANDABLE = (
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: what was missing is reserved and "
    "unallocated, in pieces that are too small; it costs no time"
)
KEEP_LESS = (
    "the same batch once tensors of past steps, such as losses with their graphs, are released: "
    "keep loss.item() or output.detach(), and empty the lists that hold them"
)

HOST_ERRORS: Final = ("MemoryError", "_ArrayMemoryError")
"""of Python and of NumPy"""
BESIDE: Final = "the process without tensors: libraries, workspace, free parts of its heap"
LARGEST: Final = 5
"""modules and variables that are named"""
WARM_STEPS: Final = 10
"""steps after which optimizer states and caches have settled"""
LEAST_GROWTH: Final = 64 << 20
"""bytes; smaller growth of a process may be an arena of the C library's allocator"""


def add_death(diagnosis: Diagnosis, recording: Path) -> Diagnosis:
    """Add what a process of the recording noted when it ran out of memory, the first one's."""
    for path in sorted(recording.glob("*.oom.json")):
        notes = read_as(DeathNotes, read_document(path))
        if not notes.error:
            continue
        account = diagnosis.memory or _empty_account(notes)
        account = msgspec.structs.replace(account, death=_describe_death(notes, diagnosis.memory))
        return msgspec.structs.replace(diagnosis, memory=account)
    return diagnosis


def _empty_account(notes: DeathNotes) -> MemoryAccount:
    """A section without a look."""
    return MemoryAccount(
        device=notes.device, batch=None, limit=notes.capacity, peak=None, peak_phase=None,
        parts=[], modules=[], reserved=None, fragmentation=None, loader_bytes=None,
        shared_bytes=None, options=[], largest_batch=None, largest_recomputed=None,
        unknown=[],
    )  # fmt: skip


def _describe_death(notes: DeathNotes, looked: MemoryAccount | None) -> MemoryDeath:
    known = {
        "parameters": notes.parameters,
        "gradients": notes.gradients,
        "optimizer state": notes.optimizer,
        "other tensors of the script": notes.others,
    }
    parts = [Part(owner=owner, bytes=size) for owner, size in known.items() if size]
    modules = [Part(owner=name, bytes=size) for name, size in notes.activations]
    kept = sum(module.bytes for module in modules)
    rest = None
    if notes.allocated is not None:
        rest = max(notes.allocated - sum(part.bytes for part in parts), 0)
    on_host = notes.device == "cpu"
    if kept:
        parts.append(Part(owner="activations", bytes=kept))
        rest = rest and max(rest - kept, 0)
    if rest:
        what = "workspace" if kept else "activations and workspace"
        parts.append(Part(owner=BESIDE if on_host else what, bytes=rest))
    noted = ("error", "requested", "capacity", "allocated", "file", "line", "function", "module")
    return MemoryDeath(
        **{name: getattr(notes, name) for name in noted},
        fragmentation=notes.unused,
        backward=bool(notes.backward),
        parts=sorted(parts, key=lambda part: -part.bytes),
        largest=[f"{n} {list(shape)} ({format_bytes(size)})" for n, shape, size in notes.largest],
        modules=modules[:LARGEST],
        growth=_describe_growth(notes),
        change=_find_change(notes, looked, kept + (0 if on_host else rest or 0)),
    )


def _describe_growth(notes: DeathNotes) -> str:
    """What grew until the error: this step's tensors, what outlives a step, or else its own."""
    if notes.steps == 0:
        return "nothing to compare with: no step was completed"
    if notes.grown and not _is_growing(notes):
        rows = [f"{name} from {list(then)} to {list(now)}" for name, then, now in notes.grown]
        return f"tensors of step {(notes.steps or 0) + 1}: {', '.join(rows[:LARGEST])}"
    warm = [row for row in notes.levels if row[0] >= WARM_STEPS]
    if len(warm) < 2:
        return ""
    (begin, low), (end, high) = warm[0], warm[-1]
    sizes = f"{low / 1e9:.3g} GB after step {begin}, {high / 1e9:.3g} GB after step {end}"
    if _is_growing(notes):
        each = (high - low) / (end - begin) / 1e6
        return f"what outlives a step: {sizes}, {each:.3g} MB more with each"
    what = "evaluation" if notes.evaluating else f"step {(notes.steps or end) + 1}"
    return (
        f"what outlives a step did not grow ({sizes}): {what} itself asked for more than the steps "
        "before, as with a longer or a larger batch"
    )


def _is_growing(notes: DeathNotes) -> bool:
    """Whether what outlives a step grew from step to step, and the last step is no more to blame: a
    tensor so much larger than before would not have fitted without that growth either."""
    warm = [row for row in notes.levels if row[0] >= WARM_STEPS]
    if len(warm) < 2 or any(a[1] > b[1] for a, b in pairwise(warm)):
        return False
    (begin, low), (end, high) = warm[0], warm[-1]
    if notes.grown and notes.peak and notes.capacity:
        base, (_, then, now) = _base(notes), notes.grown[0]
        grown = (high - low) / (end - begin) * ((notes.steps or end) - begin)
        room, needed = notes.capacity - base, notes.peak - base
        if grown < MOSTLY * room < MOSTLY * needed * math.prod(now) / max(math.prod(then), 1):
            return False
    return high - low > max(LEAST_GROWTH, 0.02 * low)


def _base(notes: DeathNotes) -> int:
    """What a step begins with; gradients that are not kept are given back by then."""
    return min(level for _, level in notes.levels) - (
        0 if notes.gradients else notes.parameters or 0
    )


def _find_batch(notes: DeathNotes) -> str:
    """The samples that would have fitted in the step whose batch grew: as many as the peak of the
    steps before allows if all of it grew with them, and fewer than those of which one step got as
    far; empty where another dimension grew."""
    name, then, now = notes.grown[0]
    if not notes.levels or not notes.peak or not notes.capacity or then[1:] != now[1:]:
        return ""
    base = _base(notes)
    asked = (notes.allocated or 0) + (notes.requested or 0) - base
    room = notes.capacity - base
    fits = int(USABLE * room * then[0] / max(notes.peak - base, 1))
    never = int(room * now[0] / max(asked, 1))
    if fits <= then[0] or never <= fits:
        return f"{name} of {then[0]:,} rows, as in the steps before"
    fits = fits // 8 * 8 if fits >= 8 else fits
    return (
        f"{name} of about {fits:,} rows instead of {now[0]:,}, by the peak of the steps before; "
        f"fewer than {never:,} in any case"
    )


def _find_change(notes: DeathNotes, looked: MemoryAccount | None, rest: int) -> str:
    """The cheapest change that would have fitted."""
    if _is_growing(notes):
        return KEEP_LESS
    if notes.unused and notes.requested and notes.unused >= notes.requested:
        return EXPANDABLE
    if looked is not None and (option := _cheapest_option(looked, notes.capacity)) is not None:
        return f"{option.summary}, as measured by --look memory in this run"
    if notes.grown and (batch := _find_batch(notes)):
        return batch
    if notes.requested and rest >= 2 * notes.requested:
        return (
            "half the micro-batch, with gradients accumulated over two of them, frees about half "
            "of the activations; what exactly fits: whyidle run --look memory with a smaller batch"
        )
    if notes.error in HOST_ERRORS:
        return "what this line makes, in smaller parts or mapped from a file (numpy.memmap)"
    if not notes.steps or notes.steps < WARM_STEPS:
        return "unknown: run with --look memory and a batch that fits"
    if notes.evaluating:
        return "evaluation of fewer samples at a time, under torch.inference_mode()"
    return "a batch like those of the steps before: fewer samples, or long ones cut or put together"


def _cheapest_option(account: MemoryAccount, capacity: int | None) -> MemoryOption | None:
    """The fitting option with the most samples per second and less than the peak of now."""
    limit = account.limit or capacity
    fits = [
        one
        for one in account.options
        if one.peak and limit and one.peak <= 0.9 * limit and one.peak < (account.peak or 0)
    ]
    return max(fits, key=lambda one: one.samples_per_s or 0.0, default=None)
