"""Looks at machines, as documents."""

from __future__ import annotations

import msgspec

from whyidle.model.diagnosis import Place
from whyidle.model.documents.watch_document import (
    Reason,
    Tenant,
    WatchedGpu,
    WatchedHost,
    WatchedJob,
    WatchedMachine,
)

GIB = 1 << 30


def reason(text: str) -> Reason:
    return Reason(
        text=text,
        proven=True,
        cause="dataloader-no-workers",
        place=Place(file="train.py", line=64, function="main"),
    )


def gpu(index: int, state: str = "active", **changes) -> WatchedGpu:
    made = WatchedGpu(
        gpu=f"gpu{index}", uuid=f"GPU-{index:04}", name="H100", card=None, pci=None, state=state,
        since_s=700.0, busy=0.31, sm_active=0.2, tensor_active=0.08, dram_active=0.3,
        memory_used_bytes=40 * GIB, memory_bytes=80 * GIB, power_w=190.0, power_limit_w=700.0,
        energy_j=1.0, temperature_c=60.0, clock_reasons=[], held_back_s={}, xid_events=0,
        xid_last=None, jobs=["slurm:4711"], reason=None,
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def job(gpus: list[str], **changes) -> WatchedJob:
    made = WatchedJob(
        key="slurm:4711", pid=7, pids=[7, 8], user="alice",
        tenant=Tenant(kind="slurm", job="4711", labels={}), command="/usr/bin/python train.py",
        age_s=9000.0, gpus=gpus, gpu_memory_bytes=40 * GIB, cores_used=1.2, memory_bytes=GIB,
        state="starved", since_s=700.0, steps=None, reason=reason("input 59 %"), suspicions=[],
        unread=[],
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def machine(gpus: list[WatchedGpu], jobs: list[WatchedJob]) -> WatchedMachine:
    host = WatchedHost(
        name="node7", cores=64.0, cores_used=8.0, memory_bytes=GIB, memory_used_bytes=GIB,
        pressure_cpu=0.1, pressure_io=0.0, pressure_memory=0.0,
    )  # fmt: skip
    return WatchedMachine(
        time="2026-11-27T14:02:10.000+00:00", window_s=1.0, host=host, driver="580.95", gpus=gpus,
        absent=None, jobs=jobs, notes=[],
    )  # fmt: skip


def fleet(count: int) -> WatchedMachine:
    states = ["starved", "idle-held", "active", "free"]
    gpus = [gpu(n, states[n % 4], reason=reason("input 59 %")) for n in range(count)]
    return machine(gpus, [job([one.uuid or "" for one in gpus])])
