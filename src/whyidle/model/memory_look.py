"""What ``--look memory`` records of one process (``PID.look-memory.json``). Sizes are bytes."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class RecordedPass(Struct, frozen=True):
    """The allocations of one step, from the first call of the model to the update."""

    batch: int = 0
    rows: tuple[tuple[int, int, int], ...] = ()
    """when (ns), address, bytes; negative where memory is given back"""
    marks: tuple[tuple[int, int, int, int], ...] = ()
    """begin and end (ns), 0 for the call of a module and 1 for the first tensor that its backward
    pass takes back, number of the module (-1: outside of all)"""
    saved: tuple[tuple[int, int, int], ...] = ()
    """address, bytes, and module whose backward pass needs it"""
    outputs: tuple[tuple[int, int], ...] = ()
    """address of a result, and the module that returned it"""
    grows: tuple[int, ...] = ()
    """rows whose memory grows with the batch"""

    def at_batch(self, batch: int) -> RecordedPass:
        """The same pass at another batch, by what grows with it."""
        rows, times = list(self.rows), batch / self.batch
        for turn in self.grows:
            when, address, size = rows[turn]
            rows[turn] = when, address, round(size * times)
        saved = tuple((a, round(size * times), owner) for a, size, owner in self.saved)
        return replace(self, batch=batch, rows=tuple(rows), saved=saved)


class MemoryLook(Struct, frozen=True):
    """The look. ``state`` is ``measured``, or why something is missing."""

    state: str = ""
    device: str = ""
    batch: int | None = None  # samples of a micro-batch
    why_no_batch: str = ""
    uneven: bool = False  # inputs differ in more than the number of samples
    parameters: int | None = None
    buffers: int | None = None
    gradients: int | None = None
    kept_gradients: bool | None = None  # whether gradients outlive the step that used them
    optimizer: int | None = None
    batch_bytes: int | None = None
    results: int | None = None  # of the model and the loss, which variables of the script hold
    others: int | None = None
    allocated: int | None = None  # by the device's allocator, at the end of a step
    reserved: int | None = None
    free_bytes: int | None = None  # that the process may still take
    target: int | None = None  # memory of the device that is planned for
    shared_bytes: int | None = None  # size of /dev/shm
    shared_free_bytes: int | None = None
    modules: tuple[tuple[str, str], ...] = ()  # name and class
    replays: tuple[RecordedPass, ...] = ()
    optimizer_rows: tuple[tuple[int, int, int], ...] = ()  # of one step of the optimizer
    times: tuple[tuple[int, float], ...] = ()  # batch size, seconds of the recorded passes
    process_bytes: int | None = None  # the most that the process has had of the host
    process_begin: int | None = None  # what it had as the recorded step began
    module_times: tuple[float, ...] = ()  # s, of the forward pass in each module
    module_parameters: tuple[int, ...] = ()  # of each module's own
    floating: int | None = None  # of the parameters, those in 32 bits

    def passes(self) -> tuple[RecordedPass, ...]:
        """The recorded steps, the smallest batch first; one that was recorded alone, twice: at its
        own batch, and at twice that by what grows with it."""
        found = sorted(self.replays, key=lambda one: one.batch)
        if len(found) == 1 and found[0].grows:
            found.append(found[0].at_batch(2 * found[0].batch))
        return tuple(found)


class DeathNotes(Struct, frozen=True):
    """What a process noted when it died for lack of memory (``PID.oom.json``)."""

    error: str = ""
    requested: int | None = None
    capacity: int | None = None
    allocated: int | None = None
    unused: int | None = None  # reserved by the allocator and not allocated
    file: str | None = None
    line: int | None = None
    function: str | None = None
    module: str | None = None
    backward: bool | None = None
    evaluating: bool | None = None  # whether that module was in evaluation mode
    device: str = ""
    parameters: int | None = None
    gradients: int | None = None
    optimizer: int | None = None
    others: int | None = None
    largest: tuple[tuple[str, tuple[int, ...], int], ...] = ()
    """name of the variable, shape, bytes"""
