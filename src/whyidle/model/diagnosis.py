"""The diagnosis document, ``whyidle/diagnosis/1``: the one thing that exporters and trials read.

Every key is always present; ``None`` means *not measured*, never zero. Shares are of the step,
0 to 1. Times carry their unit in the key.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from whyidle.model.buckets import Bucket
from whyidle.model.knobs import KNOBS
from whyidle.model.picture import Picture

SCHEMA: Final = "whyidle/diagnosis/1"

State = Literal["starved", "inefficient", "saturated", "inconclusive"]
Severity = Literal["info", "warning", "critical"]
Consent = Literal["none", "rounding", "numerics", "convergence"]

ROUNDED: Final = 0.005
"""shares are shown in percent: what differs by less looks the same"""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every part of the document: frozen, by keyword, strict when read back."""


class RunInfo(Document, frozen=True, kw_only=True):
    """What was run, where and how it ended. ``job`` is the process of the command that this is
    about, where the command ran several that trained apart from each other; ``folder`` is where the
    command was started."""

    id: str
    command: list[str] | None
    started: str | None
    duration_s: float | None
    exit_status: int | None
    framework: str | None
    ranks: int
    hosts: list[str]
    whyidle: str
    sources: list[str] = []
    job: str | None = None
    folder: str | None = None


class Device(Document, frozen=True, kw_only=True):
    """The accelerator. ``peak_flops`` is dense, of the precision the run used; None if unknown."""

    kind: Literal["cuda", "rocm", "tpu", "cpu", "emulated", "other"]
    name: str | None
    count: int
    memory_bytes: int | None
    peak_flops: float | None


class Steps(Document, frozen=True, kw_only=True):
    """Step times over steady steps. ``confidence`` (0-1) is how sure the boundaries are."""

    count: int
    warmup: int
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    samples_per_s: float | None
    detected_by: str | None
    confidence: float | None = None


class Attribution(Document, frozen=True, kw_only=True):
    """Shares of the step's device time; they sum to 1."""

    input: float
    transfer: float
    host: float
    sync: float
    communication: float
    interruption: float
    compute: float
    unknown: float


class Utilization(Document, frozen=True, kw_only=True):
    """How well the devices were used, mean of those of the recorded ranks; ``energy_j_per_step``
    is of all of them together. ``busy`` counts any device activity, spinning included."""

    busy: float | None
    gpu_util: float | None
    sm_active: float | None
    sm_occupancy: float | None
    tensor_active: float | None
    dram_active: float | None
    mfu: float | None
    power_w: float | None
    memory_peak_bytes: int | None
    energy_j_per_step: float | None


class Verdict(Document, frozen=True, kw_only=True):
    """The answer in one line. ``cause`` is that of the finding which it is about, if it is about
    one."""

    state: State
    headline: str
    bound: Bucket | None
    cause: str | None = None


class Place(Document, frozen=True, kw_only=True):
    """Where in the user's program; None = not told by the recording."""

    file: str | None
    line: int | None
    function: str | None
    rank: int | None = None


class Interval(Document, frozen=True, kw_only=True):
    """A share of the step, from the careful to the hopeful end."""

    low: float
    high: float


class Evidence(Document, frozen=True, kw_only=True):
    """One measured quantity that supports a finding."""

    quantity: str
    value: float | str | None
    unit: str | None
    window: str | None
    samples: int | None
    source: str | None


class Predicted(Document, frozen=True, kw_only=True):
    """Predicted speed-up of the step (1.25 = a quarter more steps per second)."""

    speedup: float
    low: float
    high: float
    method: str


class Edit(Document, frozen=True, kw_only=True):
    """One reversible change of a framework-neutral knob. ``among`` are numbers that are worth
    trying, the one of the model first; empty: there is nothing to search."""

    knob: str
    value: str | int | float | bool | None
    was: str | int | float | bool | None = None
    among: tuple[int, ...] = ()


class ProposedFix(Document, frozen=True, kw_only=True):
    """A fix: what to change, what it may change in the numbers, and what it should gain."""

    fix: str
    summary: str
    edits: list[Edit]
    consent: Consent
    automatic: bool
    predicted: Predicted | None
    risk: str

    @property
    def changes_batch(self) -> bool:
        """Whether it gives steps more samples: its gain is in samples, and no share of the step."""
        return any(e.knob in KNOBS and KNOBS[e.knob].per_sample for e in self.edits)


class Removal(Document, frozen=True, kw_only=True):
    """Speed-up of the step with the cause completely absent, knock-on effects included: the ceiling
    over all fixes. (1.25 = a quarter more steps per second.)"""

    speedup: float
    low: float
    high: float


class Finding(Document, frozen=True, kw_only=True):
    """A root cause with proof, its cost as share of the step, and what to do about it. ``removal``
    is None in documents of versions that did not write it."""

    cause: str
    family: str
    bucket: Bucket
    severity: Severity
    headline: str
    where: list[Place]
    lost: Interval
    removal: Removal | None = None
    confidence: float
    evidence: list[Evidence]
    fixes: list[ProposedFix]
    title: str = ""

    @property
    def best_saving(self) -> float:
        """Share of the step that its fixes win at best."""
        fixes = [fix for fix in self.fixes if not fix.changes_batch]
        return 1.0 - 1.0 / max([1.0, *(fix.predicted.high for fix in fixes if fix.predicted)])

    @property
    def exceeds_bucket(self) -> bool:
        """Whether a fix may win more than ``lost`` holds: time that another finding claims, or
        that lies in another bucket."""
        return self.best_saving > self.lost.high + ROUNDED


class Abstention(Document, frozen=True, kw_only=True):
    """A cause that could not be judged, the signals it lacks, and how to get them."""

    cause: str
    missing: list[str]
    how: str


class SearchedValue(Document, frozen=True, kw_only=True):
    """One number of a knob that was tried in the search for the best. ``step_s`` is None where no
    steady step was seen, and of its last part where it was ended early."""

    knob: str
    value: int
    step_s: float | None
    ended: Literal["through", "early", "failed", "declined"]


class Trial(Document, frozen=True, kw_only=True):
    """One paired trial of a fix. ``baseline`` and ``treated`` are seconds a step, ``low`` and
    ``high`` the interval of the measured ``speedup``: of what was kept about 95 %, of anything else
    the wider one that it had to be sure by. ``promised`` is all that was predicted, and
    ``startup_s`` what the fix costs once, before the steady part, and ``pays_after_steps`` after
    how many steps that has come back. ``notes`` are sentences of what else was seen. ``cause`` is
    what it treats, ``edits`` what it sets, ``searched`` the numbers that were tried before, the one
    of the model first."""

    fix: str
    consent: Consent
    baseline: float | None
    treated: float | None
    speedup: float | None
    low: float | None
    high: float | None
    predicted: float | None
    numerics: str | None
    kept: bool
    why: str
    promised: Predicted | None = None
    cause: str | None = None
    summary: str = ""
    edits: list[Edit] = []
    pairs: int = 0
    startup_s: float | None = None
    pays_after_steps: float | None = None
    notes: list[str] = []
    tried: bool = True
    """whether it ran with it: a job that did not take it up was as it is"""
    searched: list[SearchedValue] = []
    interrupted: bool = False
    """whether the user ended all of it before this was judged: where it ran, while it was tried"""
    untold: bool = False
    """whether its interval holds gains and losses alike, so that ``speedup`` is no result"""
    harmful: bool = False
    """whether it was undone: the job failed with it, leaked, or computed something else"""
    host_bytes_before: int | None = None
    host_bytes: int | None = None
    """at most, resident, of the processes that train, without loader workers: without the fix, and
    with it"""
    device_bytes_before: int | None = None
    device_bytes: int | None = None
    """at most, by tensors, of the fullest device"""


class Coverage(Document, frozen=True, kw_only=True):
    """What was looked at, how, and what is missing."""

    signals: list[str]
    windows: int
    overhead_ratio: float | None
    clock_error_s: float | None
    notes: list[str]


class KernelRow(Document, frozen=True, kw_only=True):
    """One kernel name, summed over the steady steps of all ranks."""

    name: str
    group: str
    precision: str | None
    tensor_core: bool | None
    count: int
    total_s: float
    share: float
    mean_us: float
    flops_ratio: float | None = None


class RankRow(Document, frozen=True, kw_only=True):
    """One rank: its step time, attribution, and when it arrives at collectives.

    ``lateness_s`` is how long the others wait, exposed, for this rank per step; ``waiting`` the
    share of the step that it waits for them; ``last_ratio`` the share of collectives to which it
    comes last. None where the recordings or their clocks do not tell.
    """

    rank: int | None
    source: str
    step_s: float | None
    attribution: Attribution
    lateness_s: float | None
    waiting: float | None = None
    last_ratio: float | None = None
    steps: list[Attribution]


class Reason(Document, frozen=True, kw_only=True):
    """A finer split of one bucket, as share of the step."""

    reason: str
    bucket: Bucket
    meaning: str
    share: float


class FixedJob(Document, frozen=True, kw_only=True):
    """The job with all fixes that were kept. ``run`` is the id of its own diagnosis, ``speedup``
    what they bring together."""

    run: str | None
    attribution: Attribution
    state: State
    headline: str
    speedup: float | None
    low: float | None
    high: float | None
    left: list[str] = []
    """what remains, a sentence each"""
    samples_per_s_before: float | None = None
    samples_per_s: float | None = None
    energy_j_per_step_before: float | None = None
    energy_j_per_step: float | None = None
    price_per_hour: float | None = None
    """of the whole job, all its devices, in whatever currency was meant"""


class DetailTables(Document, frozen=True, kw_only=True):
    """What pictures and tables need beyond the verdict."""

    reasons: list[Reason]
    kernels: list[KernelRow]
    groups: dict[str, float]
    picture: Picture | None
    ranks: list[RankRow]
    step_times_s: list[float] = []
    steady: list[bool] = []
    """whether each of ``step_times_s`` is a steady step; others are warm-up or cut short"""
    fixed: FixedJob | None = None


class Diagnosis(Document, frozen=True, kw_only=True):
    """The whole document."""

    schema: Literal["whyidle/diagnosis/1"] = SCHEMA
    run: RunInfo
    device: Device
    steps: Steps
    attribution: Attribution
    utilization: Utilization
    verdict: Verdict
    findings: list[Finding]
    abstentions: list[Abstention]
    trials: list[Trial]
    coverage: Coverage
    detail: DetailTables

    def with_id(self, run_id: str) -> Diagnosis:
        """The same under the id by which it is kept."""
        return msgspec.structs.replace(self, run=msgspec.structs.replace(self.run, id=run_id))

    @property
    def saw_nothing(self) -> bool:
        """Whether a command was watched in which no step and no work could be seen."""
        watched, steps = self.run.command is not None, self.steps.detected_by is not None
        return watched and not steps and self.attribution.unknown >= 1.0

    @property
    def command_failed(self) -> bool:
        """Whether the command failed before anything could be seen of it."""
        serious = any(finding.severity != "info" for finding in self.findings)
        return self.saw_nothing and bool(self.run.exit_status) and not serious
