"""Who runs a process: what tenants read, and what a scheduler has given away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from whyidle.model.documents.watch_document import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, as far as it can be read. ``environ`` is None for other users' processes."""

    pid: int
    user: str | None
    cgroup: str  # content of /proc/PID/cgroup
    environ: Mapping[str, str] | None
    root: Path = Path("/")  # root of the file system, for tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """GPUs that Slurm has given to a running job on this machine. ``ordinals`` are its own numbers,
    which count the machine's GPU devices by minor number."""

    job: str
    user: str | None
    labels: Mapping[str, str]
    ordinals: tuple[int, ...]

    @property
    def holder(self) -> str:
        """Who holds them, in words."""
        return f"job {self.job}{f' of {self.user}' if self.user else ''}"


class TenantReader(Protocol):
    """The interface of every module in ``whyidle.tenants``. The first by ``RANK`` that knows a
    process names its tenant."""

    RANK: int

    def identify(self, process: ProcessIdentity, /) -> Tenant | None:
        """The tenant, or None if this is none of its processes."""
