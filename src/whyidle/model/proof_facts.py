"""Facts that a cause passes to its fixes besides the ``Proof``: one class per family of causes.

A cause sets the fields that it knows. A plug-in may bring its own subclass of ``ProofFacts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from whyidle.model.diagnosis import Predicted

EVALUATIONS, SAVES, WORKER_STARTS = "evaluations", "steps with a save", "starts of workers"
"""quantities of evidence that count recurring events; trials read how often these happen"""


@dataclass(frozen=True, slots=True)
class ProofFacts:
    """No further facts."""


@dataclass(frozen=True, slots=True)
class AllocationFacts(ProofFacts):
    """Facts on allocated resources."""

    threads: int = 1  # of operators
    limit: str = ""  # kind of limit on the cores; empty: none is seen
    origin: str = ""  # who set it
    used: int | None = None  # GPUs
    listed: int | None = None  # GPUs


@dataclass(frozen=True, slots=True)
class DeviceFacts(ProofFacts):
    """Facts on the device's work."""

    libraries: tuple[str, ...] | None = None
    """libraries whose attention it is and that can fuse it; None: not known"""
    times: int | None = None  # how much larger the batch should be
    batch: int | None = None  # samples
    ranks: int = 1
    most_times: int | None = None  # how much larger a batch fits into memory
    memory: float | None = None  # share of the device's that such a batch needs at most
    passes: int | None = None  # backward passes in a step
    microbatch: tuple[int, Predicted] | None = None
    """how many passes may be joined, and what that gains"""
    benchmark: bool = False  # whether cuDNN should search for its fastest algorithms
    gradients: bool = False  # whether gradients were recorded that nobody used
    beyond_longest: float = 0.0  # part of the padding that lies beyond the longest row of its batch
    expected: float = 0.0  # share of the step that padding is expected to cost
    table: bool = False  # whether a table's gradients are dense
    parts: bool = False  # whether parts of tensors are taken one by one
    dtype: str = "bfloat16"
    switched: bool = False  # whether a switch of the framework makes numbers 64 bits wide
    rocm: bool = False
    forms: Mapping[str, tuple[str, Predicted]] = field(default_factory=dict)
    """what a form of the model changes, as a consent -> the measured form that gains most"""


@dataclass(frozen=True, slots=True)
class DistributedFacts(ProofFacts):
    """Facts on the communication of ranks."""

    rank: int | None = None  # the late one
    constant: bool = False  # whether it is always late by the same
    source: str = ""  # path of its recording
    micro_batches: int = 2  # exchanges per optimizer step
    devices: int = 2
    walks: bool = False  # whether unused parameters are searched for
    copies: bool = False  # whether gradients are copied out of their buckets
    all_used: bool = False  # whether all parameters were used
    same_unused: bool = False  # whether some never were, as often as that was read
    predicted_walks: Predicted | None = None
    predicted_copies: Predicted | None = None
    calls: float = 0.0  # collectives per step
    mean_bytes: float | None = None  # of a collective
    median_s: float | None = None  # of a collective
    kinds: Mapping[str, float] = field(default_factory=dict)  # kind of collective -> exposed time
    hidden: bool = False  # whether a good part of the exchange is hidden behind compute
    on_cpu: bool = False
    nodes: int = 1
    compressed: Predicted | None = None  # what half of the bytes gain
    gathered_once: Predicted | None = None  # what one of two gathers gains
    fewer: Predicted | None = None  # what half of the exchanges, or of the bubbles, gain
    backend: str = ""

    @property
    def kind(self) -> str:
        """The kind of collective that costs most."""
        return max(self.kinds, key=lambda name: self.kinds[name], default="")

    def kind_share(self, *kinds: str) -> float:
        """The share of some kinds of collectives in the cost of all."""
        total = sum(self.kinds.values())
        return sum(self.kinds.get(kind, 0.0) for kind in kinds) / total if total else 0.0

    @property
    def is_large(self) -> bool:
        """Whether collectives are bound by bytes, of a megabyte or 200 us at least, not latency."""
        size = self.mean_bytes
        return size >= 1 << 20 if size is not None else (self.median_s or 0.0) >= 200e-6


@dataclass(frozen=True, slots=True)
class HardwareFacts(ProofFacts):
    """Facts on a slow machine."""

    rank: int | None = None
    cpu: bool = False  # whether its process waits for a core


@dataclass(frozen=True, slots=True)
class HostFacts(ProofFacts):
    """Facts on the host's work in a step."""

    mode: str = ""  # debugging mode that is on
    every: int = 10  # steps after which a call is soon enough
    calls: int | None = None  # short operators that a line calls in each step
    library: str | None = None  # whose Python runs
    before: bool = False  # whether only the line behind the Python is known
    scalar: bool = False  # whether the device is waited for to read single numbers
    operators: tuple[str, ...] = ()  # that have no kernel for the device
    launches: float = 0.0  # per step
    larger: Predicted | None = None  # what a larger batch gains
    traced: bool = False  # whether a traced function of TensorFlow is compiled again
    python_values: bool = False  # whether it is for Python values that change
    generators: bool = False  # whether it is for generators that Keras makes for each batch
    dynamic: Predicted | None = None  # what compiling once for all lengths gains
    beside: str = ""  # where operators are called beside a compiled step, as " in FUNCTION"
    single: bool = False  # whether they are called for one element at a time
    layer: str = ""  # of PyTorch, that could replace a loop over time steps
    called: str = ""  # method of Keras that is called in each step, such as ``predict``
    renewed: str = ""  # what is new and compiled again: a ``function``, ``object`` or ``number``
    cached: Predicted | None = None  # what loading it from a folder gains
    optimizer: str = "Adam"
    implementation: str = ""  # how it updates its tensors now
    noun: str = "GPU"  # the device in words
    purpose: str = ""  # what the first line does, of ``model.purposes``
    text: str = ""  # source of the first line
    reporting: bool = False  # whether training needs nothing of it
    of_samples: bool = False  # whether a repeated result depends on the sample
    engine: str = ""  # that serves the model
    decodes: bool = False  # whether steps decode one token per request


@dataclass(frozen=True, slots=True)
class InputFacts(ProofFacts):
    """Facts on data loading."""

    workers: int | None = None  # as many as should be; None: not known
    was: int | None = None  # workers, or batches ahead, as they are
    most_workers: int | None = None  # that there is room for
    by_workers: Predicted | None = None  # what that many gain
    bound: bool = False  # whether something binds loading to fewer cores than the command was given
    undivided: bool = False  # whether several workers may repeat the data
    unfit: str = ""  # why workers should not load it
    device_work: bool = False  # whether the dataset launches work on the device
    same_again: bool = True  # whether samples come out the same in each epoch
    cached: Predicted | None = None  # what preparing samples once gains
    epoch_bytes: int | None = None  # of all samples, as batches hold them
    fits: bool = True  # whether these fit into memory, as far as known
    shuffled: bool = False  # whether elements are shuffled before a stage
    leading: Predicted | None = None  # what caching the steps before random transforms gains
    random: str = ""  # the line where they begin
    cheaper: Predicted | None = None  # what cheaper preparation gains
    hidden_by_workers: bool = False  # whether workers are expected to hide it
    compute: float = 1.0  # share of the step in which the device computes
    media: bool | None = None  # whether a library decodes; None: not known
    storage: str | None = None  # library that reads arrays in chunks
    function: str | None = None
    kind: str = ""  # what samples are, such as ``images`` or ``text``; empty: not known
    looped: bool = False  # whether the job's own code loops over the parts of each sample
    per_sample: bool = False  # whether most of it is in a method that makes a single sample
    varies: bool = False  # whether it may differ from epoch to epoch
    line: str = ""  # the line with most of it
    table_rows: int = 0  # rows of tensors that are taken one by one for a batch
    lean: bool = False  # whether batches are few tensors already
    double: bool = False  # whether most bytes of a batch are of type float64
    in_memory: bool = False  # whether samples are made without reading files
    removed: Predicted | None = None  # what doing it for whole arrays, or once, gains
    inside: bool = False  # whether workers prepare samples already
    prefetch: int = 8  # batches that each worker should have ready
    most_prefetch: int | None = None  # that there is room for
    threads: int | None = None  # of each worker's operators
    own: int | None = None  # threads of operators for which a process of this job has cores
    main: int | None = None  # threads that the training process should have beside its workers
    main_was: int | None = None
    variables: tuple[str, ...] = ()  # of the environment, that bind processes to cores
    waits: bool = False  # whether what is to run side by side mostly waits itself
    parallel: bool = False  # whether it handles several elements at a time already
    interleaved: bool = False  # whether it reads several sources in turn
    pipeline: str = ""  # a stage: ``python``, ``operators``, ``waits``, ``rows``, ``elements``
    library: str = ""  # package whose iterators give the batches
    beside: Predicted | None = None  # what a thread gains that makes batches beside the step
    conversion: str = ""  # ``objects`` or ``rows``: what Hugging Face datasets mostly makes
    converted: Predicted | None = None  # what making arrays of whole batches gains


@dataclass(frozen=True, slots=True)
class InterruptionFacts(ProofFacts):
    """Facts on interruptions of training."""

    explicit: bool = False  # whether the script calls the collector
    left_over: float = 0.0  # part of the collections that thinning leaves
    thinned: Predicted | None = None
    beside: Predicted | None = None  # what a thread concurrent with the training gains
    rarer: Predicted | None = None
    interval_s: tuple[float, float] | None = None  # between checkpoints: current and recommended
    seen_s: float | None = None  # how long the job was watched
    tracker: bool | None = None  # whether a known tracker logs; None: not known
    mlflow: bool = False
    plot: bool = False
    histograms: bool = False
    compiler: bool = False
    cached: Predicted | None = None  # what compiled code on a disk gains
    without_graph: Predicted | None = None  # what evaluating without gradients gains
    batches: bool = True  # whether evaluations take batches from a loader


@dataclass(frozen=True, slots=True)
class MemoryFacts(ProofFacts):
    """Facts on memory."""

    emptied: bool = False  # whether the script empties the cache
    recompute: str = ""  # modules worth recomputing, with commas between
    again: float = 0.0  # share of a pass that their recomputation takes


@dataclass(frozen=True, slots=True)
class TransferFacts(ProofFacts):
    """Facts on copies."""

    without_overlap: float | None = None  # share of the step that pinned memory gains by itself
    exposed: float = 0.0  # share of the step
    fragmented: bool = False  # whether it is many small copies
    type: str | None = None  # what narrower values would hold
