"""The diagnosis document, ``whyidle/diagnosis/1``.

Every key is always present; ``None`` means *not measured*, never zero. Shares are of the step,
0 to 1. Times carry their unit in the key.
"""

from __future__ import annotations

from html import escape
from typing import Final, Literal

import msgspec

from whyidle.model.architecture import Architecture
from whyidle.model.buckets import Bucket
from whyidle.model.documents.memory import MemoryAccount
from whyidle.model.documents.pipeline_tables import PipelineRow
from whyidle.model.documents.rank_tables import Attribution as Attribution  # noqa: PLC0414  # a part of it
from whyidle.model.documents.rank_tables import RankGroupRow, RankRow, WhatIf
from whyidle.model.documents.step_timeline import Picture
from whyidle.model.knobs import KNOBS
from whyidle.model.place import Place as Place  # noqa: PLC0414  # a part of it
from whyidle.model.recording import Recording
from whyidle.model.redaction import redact_command, redact_text

SCHEMA: Final = "whyidle/diagnosis/1"

State = Literal["starved", "inefficient", "saturated", "inconclusive"]
Severity = Literal["info", "warning", "critical"]
Consent = Literal["none", "rounding", "numerics", "convergence"]

ROUNDED: Final = 0.005
"""difference of shares that reports, which show percent, do not resolve"""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every part of the document: frozen, by keyword, strict when read back."""


class RunInfo(Document, frozen=True, kw_only=True):
    """The command and its end. ``job``: the process that this is about, if there were several."""

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
    """The accelerator. ``peak_flops`` is dense, for the precision that the run used."""

    kind: Literal["cuda", "rocm", "tpu", "cpu", "emulated", "other"]
    name: str | None
    count: int
    memory_bytes: int | None
    peak_flops: float | None


class Steps(Document, frozen=True, kw_only=True):
    """Times of steady steps. ``confidence`` (0-1) is that of the step boundaries."""

    count: int
    warmup: int
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    samples_per_s: float | None
    detected_by: str | None
    confidence: float | None = None


class Utilization(Document, frozen=True, kw_only=True):
    """Use of the devices, as a mean over the recorded ranks; ``energy_j_per_step`` is their sum.
    ``busy`` counts any device activity, spinning included; ``host_memory_peak_bytes`` is the
    largest resident memory of a training process in the steady steps."""

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
    host_memory_peak_bytes: int | None = None


class Verdict(Document, frozen=True, kw_only=True):
    """The answer in one line. ``cause`` is the cause of the finding that it names, if any."""

    state: State
    headline: str
    bound: Bucket | None
    cause: str | None = None


class Interval(Document, frozen=True, kw_only=True):
    """A share of the step, as an interval."""

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
    """One reversible change of a knob. ``among`` are values to search, the predicted one first."""

    knob: str
    value: str | int | float | bool | None
    was: str | int | float | bool | None = None
    among: tuple[int, ...] = ()


class ProposedFix(Document, frozen=True, kw_only=True):
    """A fix, with its edits, its consent and its predicted gain."""

    fix: str
    summary: str
    edits: list[Edit]
    consent: Consent
    automatic: bool
    predicted: Predicted | None
    risk: str

    @property
    def changes_batch(self) -> bool:
        """Whether steps have more samples with it, so that its gain is in samples per second."""
        return any(e.knob in KNOBS and KNOBS[e.knob].per_sample for e in self.edits)


class Removal(Document, frozen=True, kw_only=True):
    """Speed-up of the step without the cause, knock-on effects included (1.25 = a quarter more
    steps per second): the upper limit for its fixes. ``speedup`` is None where ``high`` exceeds
    three times ``low``: the gain is not known."""

    speedup: float | None
    low: float
    high: float


class Finding(Document, frozen=True, kw_only=True):
    """A proven cause with its cost as a share of the step, its evidence and its fixes. ``removal``
    is None in documents of older versions."""

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
    def expected_loss(self) -> float:
        """The middle of what it costs, a share of the step: the order of findings."""
        return (self.lost.low + self.lost.high) / 2

    def __str__(self) -> str:
        """Severity, headline and first place, in one line."""
        place = f" ({self.where[0]})" if self.where else ""
        return f"{self.severity.upper()}: {self.headline}{place}"

    def _repr_html_(self) -> str:
        """The same as a card for notebooks, with the first fix."""
        rows = [str(self), *(f"Fix: {fix.summary}" for fix in self.fixes[:1])]
        return f"<blockquote>{'<br>'.join(map(escape, rows))}</blockquote>"

    @property
    def best_saving(self) -> float:
        """The largest share of the step that its removal or one of its fixes may save."""
        gains: list[Predicted | Removal | None] = [self.removal]
        gains += [fix.predicted for fix in self.fixes if not fix.changes_batch]
        return 1.0 - 1.0 / max([1.0, *(gain.high for gain in gains if gain)])

    @property
    def exceeds_bucket(self) -> bool:
        """Whether more than ``lost`` may be saved: time of another finding or bucket."""
        return self.best_saving > self.lost.high + ROUNDED


class Abstention(Document, frozen=True, kw_only=True):
    """A cause that could not be judged, the missing signals, and how to record them."""

    cause: str
    missing: list[str]
    how: str


class SearchedValue(Document, frozen=True, kw_only=True):
    """One value of a knob that the search tried. ``step_s`` is None without a steady step;
    ``early`` stands in documents of version 0.2, which ended slow arms early."""

    knob: str
    value: int
    step_s: float | None
    ended: Literal["through", "early", "failed", "declined"]


class Trial(Document, frozen=True, kw_only=True):
    """One paired trial of a fix: ``baseline`` and ``treated`` are seconds per step, ``low`` and
    ``high`` the interval of ``speedup`` (about 95 % for a kept fix, wider for others)."""

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
    promised: Predicted | None = None  # the whole prediction
    cause: str | None = None
    summary: str = ""
    edits: list[Edit] = []
    pairs: int = 0
    startup_s: float | None = None  # one-off cost before the steady part
    pays_after_steps: float | None = None  # steps after which that cost is recovered
    notes: list[str] = []
    tried: bool = True  # whether the job ran with the fix in effect
    searched: list[SearchedValue] = []  # values tried before, the predicted one first
    interrupted: bool = False  # whether the user ended the session before the result
    untold: bool = False  # whether the interval holds gains and losses: inconclusive
    harmful: bool = False  # whether the job failed, leaked or computed something else with it
    host_bytes_before: int | None = None  # resident peak of training processes without the fix
    host_bytes: int | None = None  # and with it
    device_bytes_before: int | None = None  # tensor peak of the fullest device without the fix
    device_bytes: int | None = None  # and with it


class Coverage(Document, frozen=True, kw_only=True):
    """The recorded signals, their precision, and notes; ``spoils`` are those on distortions."""

    signals: list[str]
    windows: int
    overhead_ratio: float | None
    clock_error_s: float | None
    notes: list[str]
    spoils: list[str] = []


class KernelRow(Document, frozen=True, kw_only=True):
    """One kernel name, summed over steady steps of all ranks."""

    name: str
    group: str
    precision: str | None
    tensor_core: bool | None
    count: int
    total_s: float
    share: float
    mean_us: float
    flops_ratio: float | None = None


class Reason(Document, frozen=True, kw_only=True):
    """A finer split of one bucket, as share of the step."""

    reason: str
    bucket: Bucket
    meaning: str
    share: float


class LineRow(Document, frozen=True, kw_only=True):
    """One line of the user's program in the steady steps: what it does (``model.purposes``), and
    its seconds per step. A ``place`` of None is all other time of the purpose. ``reporting`` is
    whether training needs nothing of it; ``device_waits`` the part of its time in which the device
    waits, None where the CPU is the device."""

    place: Place | None
    text: str
    purpose: str
    seconds: float
    share: float
    reporting: bool
    device_waits: float | None = None


class FixedJob(Document, frozen=True, kw_only=True):
    """The job with all kept fixes. ``run`` is the id of its own diagnosis, ``speedup`` their joint
    gain, ``left`` sentences on what remains. ``doubt`` is why the gain is not told, although it was
    measured. ``startup_share`` is the one-off cost of the fixes, as a share of the time that the
    unchanged job still takes; None if its length is unknown."""

    run: str | None
    attribution: Attribution
    state: State
    headline: str
    speedup: float | None
    low: float | None
    high: float | None
    left: list[str] = []
    samples_per_s_before: float | None = None
    samples_per_s: float | None = None
    energy_j_per_step_before: float | None = None
    energy_j_per_step: float | None = None
    price_per_hour: float | None = None  # of the whole job
    doubt: str = ""
    startup_share: float | None = None
    patch: str = ""  # the kept fixes in the user's source
    commands: list[tuple[str, str]] = []  # (command, purpose), without secrets


class DetailTables(Document, frozen=True, kw_only=True):
    """Data for pictures and tables."""

    reasons: list[Reason]
    kernels: list[KernelRow]
    groups: dict[str, float]
    picture: Picture | None
    ranks: list[RankRow]
    rank_groups: list[RankGroupRow] = []
    what_if: list[WhatIf] = []  # of several ranks
    step_times_s: list[float] = []
    steady: list[bool] = []  # whether each of ``step_times_s`` is a steady step
    fixed: FixedJob | None = None
    lines: list[LineRow] = []
    pipelines: list[PipelineRow] = []


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
    recording: Recording | None = None  # of a trace; None: a watched command, or unknown
    memory: MemoryAccount | None = None  # with ``--look memory``
    architecture: Architecture | None = None  # with ``--look model``

    def with_id(self, run_id: str) -> Diagnosis:
        """The same document with the id of its stored run."""
        return msgspec.structs.replace(self, run=msgspec.structs.replace(self.run, id=run_id))

    def without_secrets(self) -> Diagnosis:
        """The same document with the secrets of its command removed."""
        run = self.run
        command = None if run.command is None else redact_command(run.command)
        job = None if run.job is None else redact_text(run.job)
        run = msgspec.structs.replace(run, command=command, job=job)
        return self if run == self.run else msgspec.structs.replace(self, run=run)

    @property
    def saw_nothing(self) -> bool:
        """Whether a watched command showed neither steps nor work."""
        stepless = self.run.command is not None and self.steps.detected_by is None
        return stepless and self.attribution.unknown >= 1.0

    @property
    def command_failed(self) -> bool:
        """Whether the command failed before anything was measured."""
        minor = all(finding.severity == "info" for finding in self.findings)
        return self.saw_nothing and bool(self.run.exit_status) and minor
