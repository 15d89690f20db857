"""What ``--look memory`` records of one process (``PID.look-memory.json``). Sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordedPass:
    """The allocations of one forward and backward pass that was computed again."""

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
    autocast: str | None = None
    """type of the narrow precision that the look added"""


@dataclass(frozen=True, slots=True)
class MemoryLook:
    """The look. ``state`` is ``measured``, or why something is missing."""

    state: str = ""
    device: str = ""
    batch: int | None = None  # samples of a micro-batch
    autocast: str | None = None  # of the job itself
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
    shared_bytes: int | None = None  # size of /dev/shm
    shared_free_bytes: int | None = None
    modules: tuple[tuple[str, str], ...] = ()  # name and class
    replays: tuple[RecordedPass, ...] = ()
    optimizer_rows: tuple[tuple[int, int, int], ...] = ()  # of one step of the optimizer
    times: tuple[tuple[int, float], ...] = ()  # batch size, seconds of a pass without page faults
    fault_times: tuple[tuple[int, float], ...] = ()  # batch size, seconds of a pass's page faults
    job_faults_s: tuple[float, ...] = ()  # of the passes of a step before the look, and of its rest
    job_shares: tuple[float, ...] = ()  # of steps after it, the same without page faults
    left_out: tuple[str, ...] = ()  # for which the look had no time
    module_times: tuple[float, ...] = ()  # s, of the forward pass in each module
    narrow_times: tuple[tuple[int, float], ...] = ()  # the same in bfloat16
    part_size: int | None = None  # samples of each part of the batch
    products: tuple[tuple[float, ...], ...] = ()  # of the gradients of any two parts
    whole_products: tuple[float, ...] = ()  # of the whole batch's gradient with them and itself

    def passes(self, autocast: str | None = None) -> tuple[RecordedPass, ...]:
        """The recorded passes of one precision, the smallest batch first."""
        chosen = [one for one in self.replays if one.autocast == autocast]
        return tuple(sorted(chosen, key=lambda one: one.batch))


@dataclass(frozen=True, slots=True)
class DeathNotes:
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
    steps: int | None = None  # that were done
    levels: tuple[tuple[int, int], ...] = ()  # steps that were done, and bytes held after them
    device: str = ""
    parameters: int | None = None
    gradients: int | None = None
    optimizer: int | None = None
    others: int | None = None
    largest: tuple[tuple[str, tuple[int, ...], int], ...] = ()
    """name of the variable, shape, bytes"""
