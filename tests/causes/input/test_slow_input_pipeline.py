"""Steps that wait for the pipeline of another framework than PyTorch."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import cpu_job, gpu_job

from whyidle.importers import xplane
from whyidle.model.timeline import InputStage
from whyidle.testing.builder import Builder, us
from whyidle.testing.cured_twins import judge_all
from whyidle.testing.pairs import Pair

CAUSE = "slow-input-pipeline"


def profile(data, stage=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.xplane.pb"
        path.write_bytes(data)
        timeline = xplane.load(path)
    return replace(timeline, source=replace(timeline.source, input_stage=stage))


@pytest.mark.parametrize(("data", "share"), [(cpu_job(), 0.6), (gpu_job(), 0.2)])
def test_the_waits_are_the_cost(data, share):
    proof = judge_all(CAUSE, [profile(data)])
    assert proof.high == pytest.approx(share, abs=0.03)
    assert "Batches are not ready" in proof.headline


def test_the_slow_stage_is_named():
    stage = InputStage("MapAndBatch", 0.017, 1, "PyFunc", 0.002)
    proof = judge_all(CAUSE, [profile(cpu_job(), stage)])
    assert "MapAndBatch takes 17 ms a batch, 1 at a time" in proof.headline
    assert {item.quantity for item in proof.evidence} >= {"PyFunc in it, per call"}


def test_a_dataloader_has_causes_of_its_own():
    job = Builder()
    for _ in range(6):
        with job.step():
            job.loader(us(5_000))
            job.op("aten::mm", kernels=[("gemm", us(500))])
    assert judge_all(CAUSE, [job.timeline()]) is None


def without_waits():
    timeline = profile(gpu_job())
    waits = timeline.rows_of("loader")
    keep = [i for i in range(len(timeline.host)) if i not in set(waits.tolist())]
    return replace(timeline, host=timeline.host.take_rows(keep))


PAIRS = {CAUSE: Pair(sick=lambda: profile(cpu_job()), healthy=without_waits)}
