"""The report on a job that died for lack of memory: what held it, at which line, and the cheapest
change that would have fitted, as far as that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

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
HOST_ERRORS: Final = ("MemoryError", "_ArrayMemoryError")
"""of Python and of NumPy"""


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
    rest = max((notes.allocated or 0) - sum(part.bytes for part in parts), 0)
    if rest:
        parts.append(Part(owner="activations and workspace", bytes=rest))
    noted = ("error", "requested", "capacity", "allocated", "file", "line", "function", "module")
    return MemoryDeath(
        **{name: getattr(notes, name) for name in noted},
        fragmentation=notes.unused,
        backward=bool(notes.backward),
        parts=sorted(parts, key=lambda part: -part.bytes),
        largest=[f"{n} {list(shape)} ({format_bytes(size)})" for n, shape, size in notes.largest],
        change=_find_change(notes, looked, rest),
    )


def _find_change(notes: DeathNotes, looked: MemoryAccount | None, rest: int) -> str:
    """The cheapest change that would have fitted."""
    if notes.unused and notes.requested and notes.unused >= notes.requested:
        return EXPANDABLE
    if looked is not None and (option := _cheapest_option(looked, notes.capacity)) is not None:
        return f"{option.summary}, as measured by --look memory in this run"
    if notes.requested and rest >= 2 * notes.requested:
        return (
            "half the micro-batch, with gradients accumulated over two of them, frees about half "
            "of the activations; what exactly fits: whyidle run --look memory with a smaller "
            "batch; where memory grew from step to step, keep loss.item() or output.detach()"
        )
    if notes.error in HOST_ERRORS:
        return "what this line makes, in smaller parts or mapped from a file (numpy.memmap)"
    if notes.evaluating:
        return "evaluation of fewer samples at a time, under torch.inference_mode()"
    return "unknown: run with --look memory and a batch that fits"


def _cheapest_option(account: MemoryAccount, capacity: int | None) -> MemoryOption | None:
    """The fitting option with the most samples per second and less than the peak of now."""
    limit = account.limit or capacity
    fits = [
        one
        for one in account.options
        if one.peak and limit and one.peak <= 0.9 * limit and one.peak < (account.peak or 0)
    ]
    return max(fits, key=lambda one: one.samples_per_s or 0.0, default=None)
