"""The document of a fleet report, ``whyidle/fleet/1``: every allocated GPU-hour, in one state.

States of allocated time:

* **useful**: a kernel ran. A sample with a busy share of 60 % is 60 % useful.
* **starved**: the rest of the samples in which any kernel ran: the GPU waited for its job. For a
job that whyidle watched, samples between its kernels belong here too, since it made steps.
* **idle-held**: no kernel ran in the sample, and more than 500 MiB of its memory were in use: a
  process holds it.
* **idle-reserved**: no kernel ran, and at most 500 MiB were in use: allocated, without a process on
  it. What the driver itself uses stays below 500 MiB.
* **failed**: all time of jobs that ended in an error, whatever they did until then.
* **cluster**: all time of attempts that the cluster ended: a node failed, a job with more right
  took the GPUs, or the job was requeued. It is nobody's waste.
* **unknown**: no telemetry, or telemetry that cannot be attributed. It is never counted as idle.

A sample stands for the time since the sample before it, at most one sampling period.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from whyidle.model.diagnosis import Document
from whyidle.model.fleet_rows import JobState

SCHEMA: Final = "whyidle/fleet/1"
FleetState = Literal[
    "useful", "starved", "idle-held", "idle-reserved", "failed", "cluster", "unknown"
]
FLEET_STATES: Final[tuple[FleetState, ...]] = get_args(FleetState)
WASTE: Final[tuple[FleetState, ...]] = ("starved", "idle-held", "idle-reserved", "failed")
GroupKey = Literal["user", "job", "cause", "partition", "node"]
Confidence = Literal["high", "medium", "low"]
HELD_BYTES: Final = 500 << 20
"""more memory in use than this is a process of a job; a driver with its contexts uses less"""
UNUSED_BUSY: Final = 0.01
"""a GPU whose busiest sample is below this was hardly used: counters are rounded to a hundredth"""


class Prices(Document, frozen=True, kw_only=True):
    """What a GPU-hour costs, by type of GPU (``""``: every other type), and a kilowatt-hour."""

    currency: str | None = None
    gpu_hour: dict[str, float] = msgspec.field(default_factory=dict)
    kilowatt_hour: float | None = None


class Account(Document, frozen=True, kw_only=True):
    """Allocated GPU time by state. ``gpu_ms`` are GPU-milliseconds and add up exactly to
    ``allocated_gpu_ms``; ``gpu_hours`` are the same in hours, with ``allocated`` and ``wasted``
    (starved, idle or failed). ``cost`` is that of all allocated time at the stated prices, without
    energy; ``energy_kwh`` that of the time in which power was measured."""

    allocated_gpu_ms: int
    gpu_ms: dict[FleetState, int]
    gpu_hours: dict[str, float]
    cost: float | None
    wasted_cost: float | None
    energy_kwh: float | None
    energy_cost: float | None


class GroupRow(Document, frozen=True, kw_only=True):
    """One user, job, partition or node. ``busy`` is the mean busy share of the time with telemetry;
    ``coverage`` the share of allocated time with telemetry."""

    key: str
    jobs: int
    busy: float | None
    coverage: float
    account: Account


class CauseRow(Document, frozen=True, kw_only=True):
    """A cause of starved time, proven by whyidle runs of the jobs; ``cause`` None: none proven."""

    cause: str | None
    title: str
    gpu_ms: int
    gpu_hours: float
    jobs: int
    fix: str | None


class FleetJobRow(Document, frozen=True, kw_only=True):
    """One job. Shares are 0-1. ``gpus`` are devices, ``share`` what it holds of each; memory is of
    one device: the 95th percentile of its hourly peaks. ``idle_since`` is the time since which no
    kernel ran on any of its GPUs, up to its last sample."""

    job: str
    ledger: str
    state: JobState
    name: str | None
    user: str | None
    account_name: str | None
    partition: str | None
    nodes: list[str]
    start: str | None
    end: str | None
    limit_s: int | None
    gpus: int
    share: float
    profile: str | None
    gpu_type: str | None
    cpus: float | None
    cores_used: float | None
    busy: float | None
    busy_peak: float | None
    sm: float | None
    sm_peak: float | None
    memory_p95_bytes: int | None
    capacity_bytes: int | None
    power_w: float | None
    coverage: float
    idle_since: str | None
    last_sample: str | None
    unused_gpus: int | None  # devices with telemetry that were never 1 % busy
    cause: str | None
    run: str | None
    account: Account
    host_memory_bytes: int | None = None  # asked for, on all nodes
    host_memory_used_bytes: int | None = None  # the sum of the peaks of its tasks


class JobEfficiency(Document, frozen=True, kw_only=True):
    """One job: what it was given and used, what its GPUs waited for (``causes``, the costliest
    first), and what to ask for ``next_time``. ``line`` is all of it in one line."""

    job: FleetJobRow
    causes: list[CauseRow]
    next_time: list[str]
    line: str


class Advice(Document, frozen=True, kw_only=True):
    """One change that would save GPU time. ``gpu_hours`` are expected of a window as long as this
    one; None where no number can be given."""

    kind: str
    subject: str
    text: str
    evidence: list[str]
    gpu_hours: float | None
    confidence: Confidence
    jobs: list[str]


class Capacity(Document, frozen=True, kw_only=True):
    """What the cluster has, and what its jobs ask for: devices, and the sum of declared shares,
    of all jobs together and at the moment with the most."""

    nodes: int | None
    gpus: int | None
    asked_devices: int
    asked_shares: float
    peak_devices: int
    peak_shares: float


class FleetCoverage(Document, frozen=True, kw_only=True):
    """What the report rests on. ``telemetry`` is the share of allocated time with samples.
    ``readings`` are those of allocated GPUs, by what they show: ``busy`` (a kernel ran), the idle
    states, and ``unknown``. ``counts`` are rows that were left out or merged, by reason;
    ``disagreeing_hours`` are GPU-hours in which two meters differ by more than 0.2."""

    ledgers: list[str]
    meters: list[str]
    telemetry: float
    period_s: float | None
    latest_sample: str | None
    disagreeing_hours: int
    readings: dict[str, int]
    counts: dict[str, int]
    notes: list[str]


class HeatRow(Document, frozen=True, kw_only=True):
    """One GPU, or one node of a large fleet, in steps of ``heat_step_h`` hours: the GPU-hours that
    were allocated, and the mean busy share of the readings; None: not measured."""

    label: str
    allocated: list[float]
    busy: list[float | None]


class FleetReport(Document, frozen=True, kw_only=True):
    """The whole document."""

    schema: Literal["whyidle/fleet/1"] = SCHEMA
    whyidle: str
    time: str
    since: str
    until: str
    by: GroupKey
    prices: Prices
    total: Account
    job_count: int
    groups: dict[str, list[GroupRow]]
    causes: list[CauseRow]
    jobs: list[FleetJobRow]
    advice: list[Advice]
    capacity: Capacity
    coverage: FleetCoverage
    heat_step_h: int  # hours of a column of the heat map
    heat: list[HeatRow]
