"""What the probe and the readers of its files share: layouts, facts, and roles of spans.

Standard library only, so that importers may import it. Times are those of ``time.perf_counter_ns``,
which all processes of a host share.

A span's name has two parts. Its *role* says what the span is, independent of the framework; readers
of a recording use only the role. Its *label* is shown to the user, in the framework's spelling.
"""

from __future__ import annotations

import struct
from typing import Any, TypedDict

MAGIC = b"whyidle spans 1\n"
"""the first bytes of ``PID.spans``: file type and version of the layout"""
SPAN = struct.Struct("<qqQIB3x")
"""``PID.spans``: begin ns, end ns, thread, name, kind"""
SAMPLE = struct.Struct("<qqQII")
"""``PID.samples``: time ns, how long the thread has been runnable ns (-1: unknown), thread, stack,
how long the interpreter lock was held when the sample was due us. Of the last, the highest bit says
whether the thread was awake, and the three below it how often the sampler's thread gave up its
core: 1: the lock was free, more: it was held, 0: unknown"""
BATCH = struct.Struct("<9q3Ii")
"""``PID.batches``: begin ns, end ns, then ns of: the thread's CPU, the process's CPU, run-queue
delay of the thread, collating, CPU of pickling earlier batches; characters read, bytes read from
storage; page faults that read, files opened, samples, worker (-1: the training process). -1: not
read"""
TAKE = struct.Struct("<3qiI")
"""``PID.takes``: begin ns, end ns, CPU ns of unpickling, batches ready or on their way at begin,
number of iterator"""
ROW = struct.Struct("<qqI4x")
"""``PID.rows``: time ns, index of a sample, checksum of the sample"""
PAD = struct.Struct("<5qIi")
"""``PID.padding``: time ns, then positions (rows times length): real, all, all if padded to the
longest row; value of padding; rows, method of the measurement"""
MARK = struct.Struct("<qqqIBBH")
"""``PID.device``: begin of what ends here ns (a batch: its request), when the mark was recorded ns,
when the device completed it ns (since the first mark of the window), window, kind, whether the
previous mark had completed (1) or not (0; 2: there is none), 0"""
CLOCK = struct.Struct("<3qQ")
"""``PID.clock``: end of an exchange of gradients ns; until then, ns of the thread on a core and
waiting for one (-1: unknown); the thread"""


class Switches(TypedDict, total=False):
    """Switches of the framework and the interpreter; None: cannot be read."""

    anomaly_mode: bool | None
    deterministic: bool | None
    cudnn_benchmark: bool | None
    cudnn_deterministic: bool | None
    sync_debug: bool | None
    run_eagerly: bool | None  # of the model that is fitted
    functions_eager: bool | None  # of all traced functions
    steps_per_call: int | None  # of the model that is fitted
    batch_callbacks: list[str]  # callbacks that look at every batch, by their classes
    num_threads: int
    gc_threshold: list[int]
    seen: dict[str, int]  # how often each was on; ``looks``: number of readings


class OptimizerFacts(TypedDict):
    """An optimizer."""

    name: str
    tensors: int
    elements: int
    groups: int
    foreach: bool | None
    fused: bool | None
    differentiable: bool | None
    momentum: float | None
    dtype: str | None  # of most of its tensors
    unread: int  # elements in rows of matrices whose gradient is zero


class AllocatorFacts(TypedDict):
    """Counters of the allocator of device memory."""

    allocated_peak_bytes: int
    device_bytes: int
    reads: list[list[int]]
    """[time ns, number of steps, how often the cache was emptied to make room]"""


class SaveFacts(TypedDict):
    """A checkpoint that was written; ``bytes`` is None if unknown."""

    path: str
    bytes: int | None
    seconds: float
    cpu_s: float


class ProcessFacts(TypedDict, total=False):
    """``PID.facts.json`` of a process that trains; ``PID.seen.json`` of one that does not has a
    part of it. A key that is missing or None was not measured. Times are ns."""

    pid: int
    ppid: int
    argv: list[str]
    framework: str  # the folder of its adapter
    version: str  # of the framework
    cuda_built: str | None
    gpus: list[str]  # of the host, including those hidden from the framework
    thread: int | None  # the thread that trains
    process_start: int | None
    imported: int  # when the framework had been imported
    first_step: int
    ended: int
    environment: dict[str, str]
    device: str  # its type, such as ``cuda`` or ``cpu``
    device_index: int | None
    device_name: str | None
    cores: float  # that the thread that trains may use
    cores_given: float | None  # that the process could use when it started
    rank: str | None
    world_size: str | None
    switches: Switches
    optimizer: OptimizerFacts
    optimizers: dict[str, OptimizerFacts]  # further ones, by the label of their steps
    memory: list[list[int]]  # [when, after how many steps, resident bytes]
    cpu: list[list[int]]  # [when, CPU time of the process until then]
    allocator: AllocatorFacts
    saves: list[SaveFacts]
    skipped_steps: int
    own: dict[str, int]
    """modes of the thread that trains: how often each was on; ``looks``: number of checks"""
    asked: dict[str, str]  # debugging mode -> the stack that switched it on
    ddp: dict[str, Any]
    sampler: dict[str, Any]
    compiled: bool  # whether the whole training step is one compiled call
    copied_bytes: int  # of a step's outputs, for which an input could have given its memory
    fresh_bytes: float  # memory that the process takes from the system per step
    fits: int  # calls of fit of Keras
    py_dataset: dict[str, Any] | None  # of Keras, that the job trains on
    died_of: str
    enough: str  # why the recording ended


NO_ROLE = ""
"""role of a span that is only shown"""

LOADER_START = "loader_start"
"""an iterator over batches is created, which may start worker processes"""
BATCH_INLINE = "batch_inline"
"""the next batch, made in the training process"""
BATCH_FROM_WORKERS = "batch_from_workers"
"""the next batch, made by worker processes"""
BATCH_FROM_ITERATOR = "batch_from_iterator"
"""the next batch, from an iterator of any other kind"""
BACKWARD = "backward"
OPTIMIZER = "optimizer"
"""a whole optimizer step: it ends the training step"""
OPTIMIZER_OPERATORS = "optimizer_operators"
"""the operators of an optimizer step"""
STEP_MARKED = "step_marked"
"""a moment that the script marks as the end of a step: ``whyidle.step()``"""
GRADIENT_SEARCH = "gradient_search"
"""a search for the parameters that get no gradient"""

EVALUATION = "evaluation"
"""with gradients off"""
EVALUATION_WITH_GRADIENTS = "evaluation_with_gradients"
CHECKPOINT = "checkpoint"
LOGGING = "logging"
CALLBACK = "callback"
"""a trainer calls the job's callbacks after a batch, or before one"""
COMPILE = "compile"
"""code is compiled for the first time"""
RECOMPILE = "recompile"
"""code is compiled once more"""
GARBAGE_COLLECTION = "garbage_collection"
"""Python's collector runs by itself"""
GARBAGE_COLLECTION_CALL = "garbage_collection_call"
"""the script calls the collector"""
CACHE_RELEASE = "cache_release"
"""the framework releases cached device memory"""
PROFILING = "profiling"
"""steps that the probe itself records in detail"""

COLLECTIVE = "collective"
"""from the call of a collective to its completion"""
COLLECTIVE_WAIT = "collective_wait"
"""the host waits for a collective that was started earlier"""
SYNCHRONIZE = "synchronize"
"""the host waits for all work of the device"""
SCALAR_READ = "scalar_read"
"""the host waits for the value of a tensor"""

EXECUTION = "execution"
"""the device runs a compiled step, from its call to its completion"""
DEVICE_IDLE = "device_idle"
"""from when the device last had work for certain to when it was found idle"""

PRODUCER_WORK = "producer_work"
"""another thread of the process makes what the training thread waits for; found by a look from
outside, not recorded"""
STARTUP = "startup"
"""before the training loop; found by the reader, not recorded"""
SHUTDOWN = "shutdown"
"""after the training loop; found by the reader, not recorded"""

WRITE_FAILED, QUOTA_REACHED = "writing", "recording quota reached"
"""how a line of ``PID.faults`` begins after which the process records nothing more"""


def join_name(role: str, label: str) -> str:
    """Return a line of ``PID.names``, without its end."""
    return f"{role}\t{label}".replace("\n", " ")


def split_name(line: str) -> tuple[str, str]:
    """Return the role and the label of a line of ``PID.names``."""
    role, tab, label = line.partition("\t")
    return (role, label) if tab else (NO_ROLE, line)
