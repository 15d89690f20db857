"""Facts about a watched process: versions, switches, optimizers, exchanges, bursts.

``importers`` read them from the documents of the probe (``probe.wire``). None: not recorded.
Moments are ns on the clock of ``time.perf_counter_ns``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Struct, field

from whyidle.model.memory_look import MemoryLook
from whyidle.model.model_look import ModelLook
from whyidle.model.pipeline_facts import Pipeline, PyDataset


class Signal(NamedTuple):
    """One kind of evidence that a cause may need; at a fact, with its id before it. ``how``
    completes the sentence "To record it, ..."."""

    meaning: str
    how: str = "watch the command: whyidle run COMMAND"


class Switches(Struct, frozen=True):
    """Switches of the framework and the interpreter when they were last read."""

    num_threads: int | None = None  # of operators
    cudnn_benchmark: bool | None = None
    cudnn_deterministic: bool | None = None
    deterministic: bool | None = None
    anomaly_mode: bool | None = None
    run_eagerly: bool | None = None  # of the model that is fitted
    functions_eager: bool | None = None  # of all traced functions
    steps_per_call: int | None = None  # of the model that is fitted
    batch_callbacks: tuple[str, ...] = ()  # that look at every batch, by their classes
    seen: Mapping[str, int] = field(default_factory=dict)
    """debugging mode -> how often it was on, of ``looks`` reads"""


class OptimizerFacts(Struct, frozen=True):
    """An optimizer: its class, what it updates, and how."""

    name: str = ""
    tensors: int = 0
    elements: int = 0
    groups: int = 1  # of parameters
    foreach: bool | None = None
    fused: bool | None = None
    differentiable: bool | None = None
    momentum: float | None = None
    dtype: str | None = None  # of most of its tensors
    unread: int = 0  # elements in rows of matrices whose gradient is zero


class AllocatorFacts(Struct, frozen=True):
    """Counts of the allocator of device memory."""

    allocated_peak_bytes: int | None = None
    device_bytes: int | None = None
    reads: tuple[tuple[int, int, int], ...] = ()
    """when (ns), after how many steps, how often the cache was emptied to make room"""


class SaveFacts(Struct, frozen=True):
    """A checkpoint that was written; ``bytes`` is None where that cannot be known."""

    bytes: int | None = None
    seconds: float = 0.0
    cpu_s: float | None = None


class ExchangeFacts(Struct, frozen=True):
    """How DistributedDataParallel exchanges gradients, by its own log; times are ns."""

    unused_parameter_size: int | None = None  # bytes
    unused_readings: int = 0  # how often that was read
    unused_varies: bool = False  # whether it was not always the same
    gradient_as_bucket_view: int | None = None  # 0 or 1
    num_parameter_tensors: int = 0
    total_parameter_size_bytes: float = 0.0
    avg_backward_comm_time: float = 0.0
    avg_backward_compute_comm_overlap_time: float = 0.0
    made: str = ""  # the stack that wrapped the model


class SamplerFacts(Struct, frozen=True):
    """The cost of the sampler, and the core waits of the training thread, s."""

    cpu_s: float | None = None
    elapsed_s: float | None = None
    core_wait_s: float | None = None  # how long the training thread waited for a core
    core_seen_s: float | None = None  # time over which that was read


class Compilation(Struct, frozen=True):
    """One compilation; ``turn`` counts those of a function from 1."""

    file: str = ""
    line: int = 0
    function: str = ""
    turn: int = 1
    began: int = 0
    seconds: float = 0.0
    reason: str | None = None  # why it was compiled again
    failed: str | None = None  # why it was given up


class CompilerFacts(Struct, frozen=True):
    """The compilations of a process."""

    functions: int = 0
    compiles: tuple[Compilation, ...] = ()


class BurstFacts(Struct, frozen=True):
    """A burst as the probe describes it. Step times before, during and after it, and ``cost_s``,
    are in seconds."""

    state: str = ""  # ``recorded``, or why it was not
    file: str = ""
    step: int = 0  # the first of them, by calls of the optimizer
    steps: int = 0
    begin: int | None = None
    end: int | None = None
    before_s: float | None = None
    during_s: float | None = None
    after_s: float | None = None
    cost_s: float = 0.0


class BurstInRun(BurstFacts, frozen=True):
    """A burst with the measurements of the run around it."""

    window: str = "burst"  # the steps in words
    usual_s: float | None = None  # median length of the steps around it, s
    run_s: float | None = None  # mean length of the run's steps, s
    run: Mapping[str, float] = field(default_factory=dict)  # reason -> share of the run's steps


class BurstLog(Struct, frozen=True):
    """All bursts of a process, and why there are no more."""

    bursts: tuple[BurstFacts, ...] = ()
    off: str | None = None  # why there will be no more
    put_off: str | None = None  # why there is none for now
    needs_s: float | None = None  # time of steps to observe before the next one pays
    looks: bool | None = None  # whether bursts were requested immediately
    counted_s: tuple[int, float] | None = None  # graph nodes of a step, and its time, s


class ProcessFacts(Struct, frozen=True):
    """One process of a watched command."""

    pid: int | None = None
    ppid: int | None = None
    argv: tuple[str, ...] = ()
    framework: str | None = None  # the folder of its adapter
    version: str | None = None  # of the framework
    cuda_built: str | None = None  # the CUDA version that the framework is built for; empty: none
    gpus: tuple[str, ...] = ()  # of the host, whatever the framework can see
    thread: int | None = None  # the thread that trains
    process_start: int | None = None
    imported: Annotated[
        int | None, "own_process", Signal("the threads of the process over its whole life")
    ] = None  # when the framework had been imported
    first_step: int | None = None
    ended: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    launch: Mapping[str, str] = field(default_factory=dict)  # variables of an elastic launcher
    device: str | None = None  # its type, such as ``cuda`` or ``cpu``
    device_index: int | None = None
    device_name: str | None = None
    cores: float | None = None  # that the thread that trains may use
    cores_given: float | None = None  # that the process might use when it started
    switches: Annotated[
        Switches | None,
        "own_settings",
        Signal("settings of the process: switches, optimizer, compiler, memory"),
    ] = None
    own: Mapping[str, int] = field(default_factory=dict)
    """mode of the training thread -> how often it was on, of ``looks`` reads"""
    asked: Mapping[str, str] = field(default_factory=dict)  # debugging mode -> stack that set it
    optimizer: OptimizerFacts | None = None
    optimizers: Mapping[str, OptimizerFacts] = field(default_factory=dict)  # others, by label
    memory: tuple[tuple[int, int, int], ...] = ()  # when (ns), after how many steps, resident bytes
    allocator: Annotated[
        AllocatorFacts | None,
        "own_allocator",
        Signal(
            "counters of the framework's device memory allocator",
            "watch the command on a GPU: whyidle run COMMAND",
        ),
    ] = None
    saves: tuple[SaveFacts, ...] = ()
    skipped_steps: int = 0  # of the optimizer, by gradient scaling
    ddp: ExchangeFacts | None = None
    sampler: SamplerFacts = SamplerFacts()
    compiled: bool | None = None  # whether the whole training step is one compiled call
    copied_bytes: int | None = None
    """outputs of a compiled step for which an input could have given its memory, and did not"""
    fresh_bytes: float | None = None  # memory that the process takes from the system per step
    compile: CompilerFacts | None = None
    bursts: BurstLog = BurstLog()
    memory_look: MemoryLook | None = None  # with ``--look memory``
    model_look: ModelLook | None = None  # with ``--look model``
    pipelines: tuple[Pipeline, ...] = ()
    fits: int = 0  # calls of ``fit`` of Keras
    py_dataset: PyDataset | None = None  # of Keras, that the job trains on
    cpu: tuple[tuple[int, int], ...] = ()  # when (ns), CPU time of the process until then (ns)
    died_of: str | None = None  # exception that ended it
    cut_short: bool = False  # a trial ended it before its training was done
    enough: str | None = None  # why the recording stopped

    @property
    def failure(self) -> str:
        """The exception that ended it; empty if none did, or a person by Ctrl-C."""
        error = (self.died_of or "").rstrip(": ")
        return "" if error.startswith(KeyboardInterrupt.__name__) else error

    @property
    def operator_threads(self) -> int | None:
        """Threads of its operators."""
        return self.switches.num_threads if self.switches else None


class LoaderFacts(Struct, frozen=True):
    """A loader: its settings, its code, and the line that requested its iterator. Places are
    ``file(line): function``."""

    workers: int = 0
    batch_size: int | None = None
    prefetch: int | None = None
    pinned: bool = False
    persistent: bool = False
    transforms: bool | None = None  # whether its dataset holds a chain of transforms
    iterable: bool = False  # whether its dataset can only be iterated over
    unfit: str = ""  # why workers should not load its dataset
    batches: int | None = None  # of an epoch
    making: str | None = None
    collating: str | None = None
    asked: str | None = None


class Stepless(Struct, frozen=True):
    """Why no training step was seen."""

    reason: str
    failed_early: bool = False  # whether the command failed before it could import a framework
    aside: bool = False  # whether the process lived for only a part of the command


class LifePhases(Struct, frozen=True):
    """The phases of a process without training, s."""

    import_s: float | None = None  # from its start until the framework was imported
    startup_s: float | None = None  # from then until its first step
    importing_s: float | None = None  # of that, inside import statements
    after_s: float | None = None  # after its last step
    life_s: float | None = None


class KeptLoss(Struct, frozen=True):
    """A line of the user's program that keeps a loss of every step."""

    file: str
    line: int
    function: str
    text: str
