"""The document of one look at a machine, ``whyidle/watch/1``.

Every key is always present; ``None`` means *not measured*, never zero. Shares are 0 to 1, of the
time since the last look. A GPU is named by its UUID; ``gpu`` is its place on this machine.
"""

from __future__ import annotations

from typing import Final, Literal

from whyidle.model.diagnosis import Document, Place

SCHEMA: Final = "whyidle/watch/1"

GpuState = Literal[
    "active", "starved", "idle-held", "idle-reserved", "stalled", "throttled", "free", "lost"
]
"""active: it works · starved: it waits for its job · idle-held: a process holds its memory and runs
nothing · idle-reserved: a scheduler gave it to a job that has no process on it · stalled: its job
makes no step · throttled: its clocks are held back · free: nobody uses it · lost: it answers no
more"""
STATES: Final[tuple[GpuState, ...]] = (
    *("active", "starved", "idle-held", "idle-reserved", "stalled", "throttled", "free", "lost"),
)


class Reason(Document, frozen=True, kw_only=True):
    """Why a GPU or a job is in its state. ``proven`` is whether it comes from the recording of a
    watched command; otherwise it is a suspicion, and ``proof`` says what would prove it."""

    text: str
    proven: bool
    cause: str | None = None  # id in the catalogue of causes, or of the suspicion
    place: Place | None = None
    fix: str | None = None  # summary of the first fix
    proof: str | None = None


class WatchedHost(Document, frozen=True, kw_only=True):
    """The machine. ``pressure`` is the share of time in which some task waited (Linux PSI)."""

    name: str
    cores: float | None
    cores_used: float | None
    memory_bytes: int | None
    memory_used_bytes: int | None
    pressure_cpu: float | None
    pressure_io: float | None
    pressure_memory: float | None


class WatchedGpu(Document, frozen=True, kw_only=True):
    """One GPU, or one MIG slice. ``since_s`` is how long it has been in its state, as far as it has
    been watched. ``jobs`` are keys of the document's jobs."""

    gpu: str
    uuid: str | None
    name: str | None
    card: str | None  # UUID of the card of a slice
    pci: str | None
    state: GpuState
    since_s: float
    busy: float | None
    sm_active: float | None
    tensor_active: float | None
    dram_active: float | None
    memory_used_bytes: int | None
    memory_bytes: int | None
    power_w: float | None
    power_limit_w: float | None
    energy_j: float | None
    temperature_c: float | None
    clock_reasons: list[str] | None
    held_back_s: dict[str, float]  # counter by reason: power, heat
    xid_events: int | None
    xid_last: int | None
    jobs: list[str]
    reason: Reason | None


class Tenant(Document, frozen=True, kw_only=True):
    """Whose job it is: ``kind`` slurm, kubernetes, container or plain; ``job`` its id there."""

    kind: str
    job: str | None
    labels: dict[str, str]


class WatchedFinding(Document, frozen=True, kw_only=True):
    """A proven cause, and the share of the step that it costs, as an interval."""

    cause: str
    severity: str
    low: float
    high: float


class WatchedSteps(Document, frozen=True, kw_only=True):
    """Steps of a job under ``whyidle run``."""

    run: str  # id of the stored run
    count: int
    step_s: float | None
    last_step_s: float | None  # time since the last step
    phase: str | None  # the part of the job that is running, if not training
    shares: dict[str, float] | None  # of the step, by bucket, over the last half minute
    samples_per_s: float | None
    overhead: float | None
    rank_skew: float | None  # share of the step that others wait for the latest rank
    to_last_runs: float | None  # step time, of that of the slowest of the last runs
    findings: list[WatchedFinding]


class WatchedJob(Document, frozen=True, kw_only=True):
    """The processes of one job. ``command`` has secrets removed."""

    key: str
    pid: int
    pids: list[int]
    user: str | None
    tenant: Tenant
    command: str | None
    age_s: float | None
    gpus: list[str]
    gpu_memory_bytes: int | None
    cores_used: float | None
    memory_bytes: int | None
    state: GpuState
    since_s: float
    steps: WatchedSteps | None
    reason: Reason | None
    suspicions: list[Reason]
    unread: list[str]  # what could not be read of it, and why


class AbsentGpus(Document, frozen=True, kw_only=True):
    """Why no GPU is shown, and how to change that."""

    reason: str
    how: str


class WatchedMachine(Document, frozen=True, kw_only=True):
    """The whole document."""

    schema: Literal["whyidle/watch/1"] = SCHEMA
    time: str
    window_s: float  # time between the two looks that shares are computed from
    host: WatchedHost
    driver: str | None
    gpus: list[WatchedGpu]
    absent: AbsentGpus | None
    jobs: list[WatchedJob]
    notes: list[str]
