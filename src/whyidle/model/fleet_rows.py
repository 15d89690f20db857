"""The two tables of a fleet: what a ledger says (who held which GPUs), and what a meter says (how
busy a GPU was). Times are milliseconds since the epoch, in UTC.

A ledger gives rows in memory, of which there are as many as jobs. A meter gives a query of DuckDB,
since it may have 10^9 rows; ``READING_COLUMNS`` are the columns of its result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, Protocol, get_args

import msgspec

JobState = Literal[
    "pending", "running", "completed", "failed", "timeout", "cancelled", "preempted", "cluster",
    "unknown",
]  # fmt: skip
JOB_STATES: Final[tuple[JobState, ...]] = get_args(JobState)
ENDED_BY_CLUSTER: Final = ("preempted", "cluster")
"""the cluster ended the attempt: for a job with more right, or since a node failed"""
WHOLE: Final = 1000
"""a whole GPU, in thousandths"""
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000


class Window(msgspec.Struct, frozen=True):
    """The time that is asked about, from ``start_ms`` to before ``end_ms``."""

    start_ms: int
    end_ms: int


class FleetJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a scheduler, or one pod. ``gpus`` is what it was given, ``milli`` the share of
    each device (1000: whole GPUs), ``profile`` its MIG profile, such as ``1g.10gb``."""

    job: str
    ledger: str
    state: JobState
    name: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    submit_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    limit_s: int | None = None
    gpus: int = 0
    milli: int = WHOLE
    profile: str | None = None
    gpu_type: str | None = None
    cpus: float | None = None
    cpu_s: float | None = None  # CPU time used
    memory_bytes: int | None = None  # of the host, which it asked for on all its nodes
    memory_used_bytes: int | None = None  # the sum of the peaks of its tasks
    nodes: int | None = None


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of one node that a job held: ``gpus`` devices that are not known one by one, or the one
    that ``gpu`` names (its number on the node, or its UUID). ``milli`` is the share of each,
    ``label`` the name that meters use for the job."""

    job: str
    label: str
    node: str | None
    gpu: str | None
    gpus: int
    milli: int
    shared: bool  # whether other jobs may use the same device, which has one meter for all
    start_ms: int
    end_ms: int


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster, as the ledger knows it."""

    node: str
    gpus: int
    gpu_type: str | None = None
    cpus: float | None = None


class JobCause(msgspec.Struct, frozen=True, kw_only=True):
    """A proven cause of a job's waiting, from a whyidle run of it, as a share of the step (0-1),
    and the share of the step in which its device waited."""

    job: str
    host: str | None  # which is the name of the pod, in Kubernetes
    run: str
    cause: str
    title: str
    lost: float
    waiting: float
    fix: str | None = None


class LedgerRows(msgspec.Struct, kw_only=True):
    """What a ledger knows about a window. ``counts`` are rows that were left out or corrected, by
    reason; ``notes`` are sentences for the reader."""

    jobs: list[FleetJob] = []
    holdings: list[Holding] = []
    nodes: list[NodeRow] = []
    causes: list[JobCause] = []
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    notes: list[str] = []


READING_COLUMNS: Final[dict[str, str]] = {
    "time_ms": "BIGINT",
    "node": "VARCHAR",
    "gpu": "VARCHAR",  # its number on the node, or of a MIG slice NUMBER/INSTANCE
    "uuid": "VARCHAR",
    "job": "VARCHAR",  # if the meter labels its series with the job that held the GPU
    "owner": "VARCHAR",  # and with a user or namespace
    "busy": "FLOAT",  # share of the sampling period in which any kernel ran, 0-1
    "sm": "FLOAT",  # share of the multiprocessors that had a warp, 0-1
    "memory_bytes": "BIGINT",
    "capacity_bytes": "BIGINT",
    "power_w": "FLOAT",
}
"""column of a meter's query -> type. NULL: not measured"""


class MeterTable(msgspec.Struct, kw_only=True):
    """What a meter has of a window: a query of DuckDB, whether it is a scan of Parquet files that
    need no copy, and what identifies its content (a copy is made again when that changes)."""

    query: str
    is_parquet: bool
    version: str
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    notes: list[str] = []


Progress = Callable[[int, int], None]


class Ledger(Protocol):
    """The interface of every module in ``whyidle.ledgers``."""

    __name__: str

    def read(self, where: str, window: Window) -> LedgerRows:
        """Who held which GPUs in a window; ``where`` is what the user wrote after the name.

        Raises:
            InputError: it cannot be read; the message says why, and what to switch on.
        """


class Meter(Protocol):
    """The interface of every module in ``whyidle.meters``."""

    __name__: str

    def read(self, where: str, window: Window, work: Path, progress: Progress) -> MeterTable:
        """How busy GPUs were in a window. Files that it makes go into ``work`` and are used again.

        Raises:
            InputError: it cannot be read; the message says why.
        """
