"""A look that publishers publish."""

from __future__ import annotations

import pytest
from watched_machines import gpu, job, machine

from whyidle.model.buckets import BUCKETS
from whyidle.model.documents.watch_document import (
    Tenant,
    WatchedFinding,
    WatchedMachine,
    WatchedSteps,
)

FINDING = WatchedFinding(cause="dataloader-no-workers", severity="critical", low=0.5, high=0.6)


def make_look(steps: int = 100, shares: bool = True, count: int = 1) -> WatchedMachine:
    known = dict.fromkeys(BUCKETS, 0.0) | {"input": 0.6, "compute": 0.3, "unknown": 0.1}
    pod = Tenant(kind="kubernetes", job="train-0", labels={"pod": "train-0", "namespace": "a"})
    jobs = [
        job(
            ["GPU-1"], key=f"run:r{n}", command='train.py --note "a\\b"', tenant=pod,
            steps=WatchedSteps(
                run=f"r{n}", count=steps, step_s=0.1, last_step_s=0.05, phase=None,
                shares=known if shares else None, samples_per_s=320.0, overhead=0.004,
                rank_skew=None, to_last_runs=1.02, findings=[FINDING],
            ),
        )
        for n in range(count)
    ]  # fmt: skip
    card = gpu(
        0, "starved", uuid="GPU-1", name='H100 "80GB"', pci="00000000:01:00.0", busy=0.3,
        tensor_active=None, held_back_s={"power": 5.0}, jobs=["run:r0"],
    )  # fmt: skip
    return machine([card], jobs)


@pytest.fixture
def look():
    return make_look
