"""Which processes are one job, and whose it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from whyidle import catalog
from whyidle.machine.watch.process_table import ProcessTable, SeenProcess
from whyidle.model.documents.watch_document import Tenant
from whyidle.model.live.tenancy import TenantReader
from whyidle.store.entry import RECORDING

_LAUNCHER = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|whyidle|mpirun|horovodrun|ray")
_PACKAGE = f"{Path(catalog.__file__).parent}{os.sep}"
_KERNEL = "ipykernel_launcher"
"""each notebook is a job of its own, whatever server started it"""
_SCHEDULED = ("slurm", "kubernetes")


@dataclass(slots=True)
class JobGroup:
    """The processes of one job that hold a GPU, or that ``whyidle run`` watches."""

    key: str
    root: int
    tenant: Tenant
    pids: set[int] = field(default_factory=set)
    recording: Path | None = None


def group_jobs(table: ProcessTable, holders: Iterable[int]) -> dict[str, JobGroup]:
    """Group the holders of GPUs and the watched processes into jobs, by key. The trials of a search
    are one job."""
    groups: dict[str, JobGroup] = {}
    readers = load_tenants()
    watched = (
        pid for pid, seen in table.processes.items() if _recording_of(seen) and not _is_helper(seen)
    )
    for pid in {*holders, *watched}:
        if pid not in table.processes:
            continue
        root = _root_of(table, pid)
        recording = _recording_of(table.processes[pid])
        tenant = _identify(table.processes[pid], readers)
        search = (table.processes[pid].environ or {}).get("WHYIDLE_SEARCH")
        key = f"search:{Path(search).name}" if search else _job_key(tenant, recording, root)
        group = groups.setdefault(key, JobGroup(key, root, tenant, set(), recording))
        group.pids.add(pid)
        if table.processes[root].started_ticks < table.processes[group.root].started_ticks:
            group.root = root
    return groups


def load_tenants() -> list[TenantReader]:
    """The readers of tenants, the most specific first."""
    names = catalog.plugin_names("tenants")
    modules = [cast("TenantReader", catalog.plugin_module("tenants", name)) for name in names]
    return sorted(modules, key=lambda module: module.RANK)


def _identify(seen: SeenProcess, readers: list[TenantReader]) -> Tenant:
    identity = seen.identity(Path("/"))
    known = (reader.identify(identity) for reader in readers)
    plain = Tenant(kind="plain", job=None, labels={})
    return next((tenant for tenant in known if tenant is not None), plain)


def _job_key(tenant: Tenant, recording: Path | None, root: int) -> str:
    if recording is not None:
        return f"run:{run_name(recording)}"
    if tenant.kind in _SCHEDULED and tenant.job:
        return f"{tenant.kind}:{tenant.job}"
    return f"pid:{root}"


def run_name(recording: Path) -> str:
    """The id of the run that a recording belongs to; of one that is not stored, its folder."""
    return recording.parent.name if recording.name == RECORDING else recording.name


def _recording_of(seen: SeenProcess) -> Path | None:
    folder = (seen.environ or {}).get("WHYIDLE_RUN")
    return Path(folder) if folder else None


def _is_helper(seen: SeenProcess) -> bool:
    """Whether it runs a script of whyidle itself, such as the launcher of trials."""
    return any(word.startswith(_PACKAGE) for word in seen.command[1:4])


def _root_of(table: ProcessTable, pid: int) -> int:
    """The first process of the job: the highest in a chain of interpreters and launchers of the
    same user. A watched job begins at the command that ``whyidle run`` started."""
    root = table.processes[pid]
    for seen in table.ancestors(pid):
        if seen.user != root.user or _recording_of(seen) != _recording_of(root) or _is_helper(seen):
            break
        name = Path(seen.command[0]).name if seen.command else ""
        if seen.pid != pid and not _LAUNCHER.fullmatch(name):
            break
        root = seen
        if _KERNEL in seen.command:
            break
    return root.pid
