"""A look that publishers publish."""

from __future__ import annotations

import pytest

from whyidle.model.buckets import BUCKETS
from whyidle.model.documents.watch_document import (
    Reason,
    Tenant,
    WatchedFinding,
    WatchedGpu,
    WatchedHost,
    WatchedJob,
    WatchedMachine,
    WatchedSteps,
)

GIB = 1 << 30
LABELS = {"pod": "train-0", "namespace": "a"}
FINDING = WatchedFinding(cause="dataloader-no-workers", severity="critical", low=0.5, high=0.6)


def make_look(steps: int = 100, shares: bool = True, count: int = 1) -> WatchedMachine:
    known = dict.fromkeys(BUCKETS, 0.0) | {"input": 0.6, "compute": 0.3, "unknown": 0.1}
    jobs = [
        WatchedJob(
            key=f"run:r{n}", pid=7, pids=[7], user="alice", command='train.py --note "a\\b"',
            tenant=Tenant(kind="kubernetes", job="train-0", labels=LABELS),
            age_s=9.0, gpus=["GPU-1"], gpu_memory_bytes=GIB, cores_used=1.0, memory_bytes=GIB,
            state="starved", since_s=3.0, suspicions=[], unread=[],
            reason=Reason(text="x", proven=True, cause="dataloader-no-workers"),
            steps=WatchedSteps(
                run=f"r{n}", count=steps, step_s=0.1, last_step_s=0.05, phase=None,
                shares=known if shares else None, samples_per_s=320.0, overhead=0.004,
                rank_skew=None, to_last_runs=1.02,
                findings=[FINDING],
            ),
        )
        for n in range(count)
    ]  # fmt: skip
    gpu = WatchedGpu(
        gpu="gpu0", uuid="GPU-1", name='H100 "80GB"', card=None, pci="00000000:01:00.0",
        state="starved", since_s=3.0, busy=0.3, sm_active=0.2, tensor_active=None, dram_active=0.1,
        memory_used_bytes=40 * GIB, memory_bytes=80 * GIB, power_w=200.0, power_limit_w=700.0,
        energy_j=1e6, temperature_c=55.0, clock_reasons=[], held_back_s={"power": 5.0},
        xid_events=0, xid_last=None, jobs=["run:r0"], reason=None,
    )  # fmt: skip
    host = WatchedHost(
        name="node7", cores=8.0, cores_used=2.0, memory_bytes=GIB, memory_used_bytes=GIB,
        pressure_cpu=None, pressure_io=None, pressure_memory=None,
    )  # fmt: skip
    return WatchedMachine(
        time="2026-11-27T14:02:10.000+00:00", window_s=1.0, host=host, driver="580", gpus=[gpu],
        absent=None, jobs=jobs, notes=[],
    )  # fmt: skip


@pytest.fixture
def look():
    return make_look
