"""Steps that wait for the pipeline of another framework than PyTorch."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import cpu_job, gpu_job

from cured_twins import judge_all
from whyidle.model.proof_facts import InputFacts
from whyidle.model.timeline import HostKind, InputStage
from whyidle.readers import xplane
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

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


LOOP = "/job/train.py(9): <module>"
ROWS = "/usr/lib/python3.11/site-packages/datasets/formatting/torch_formatter.py(60): format_row;"
OBJECTS = "/usr/lib/python3.11/site-packages/datasets/formatting/formatting.py(150): extract_batch;"
DATASET = "/usr/lib/python3.11/site-packages/datasets/arrow_dataset.py(2800): iter;"


def iterate(name, stack, wait_ms=20, requests=1, busy_cores=None):
    job = RecordedJob(framework="pytorch", cores=2.0)
    if busy_cores is not None:
        job.facts["cpu"] = [[0, 0], [100, round(100 * busy_cores)]]
    for _ in range(30):
        for _ in range(requests):
            with job.call(f"batch_from_iterator\t{name}"):
                job.work(stack + LOOP, ms(wait_ms) // requests)
        operators = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call("optimizer\tOptimizer.step#SGD.step"), operators:
            job.work(LOOP, ms(10))
    return job.timeline()


def test_iterators_of_libraries_are_named_with_the_users_line():
    source = "/job/train.py(4): __getitem__;/usr/lib/python3.11/site-packages/grain/a.py(5): get;"
    proof = judge_all(CAUSE, [iterate("grain._src.BatchIterator", source)])
    assert proof.headline.startswith("Grain makes batches in the training loop: 20 ms of waiting")
    assert "train.py:4" in proof.headline
    assert proof.high == pytest.approx(0.67, abs=0.03)
    facts = proof.get_facts(InputFacts)
    assert (facts.library, facts.conversion) == ("grain", "")


GRAIN = "/usr/lib/python3.11/site-packages/grain/_src/python/prefetch.py(264): __next__;"
WAIT = f"/usr/lib/python3.11/concurrent/futures/_base.py(451): result;{GRAIN}"


@pytest.mark.parametrize(
    ("busy_cores", "stack", "gains"),
    [(0.5, GRAIN, (True, True)), (1.5, GRAIN, (False, True)), (1.5, WAIT, (False, False))],
)
def test_workers_do_little_for_code_that_works(busy_cores, stack, gains):
    """Threads share the lock, processes the cores; threads of its own are no fewer with more."""
    proof = judge_all(CAUSE, [iterate("grain.Iterator", stack, busy_cores=busy_cores)])
    predicted = proof.predicted
    assert (predicted.low > 1.03, predicted.speedup > 1.03) == gains


@pytest.mark.parametrize(
    ("stack", "requests", "conversion"),
    [
        (OBJECTS + DATASET, 1, "objects"),
        (ROWS + DATASET, 32, "single"),
        (ROWS + DATASET, 1, ""),  # a whole batch is converted at once
        (DATASET, 1, ""),  # reads
    ],
)
def test_what_datasets_converts_is_told(stack, requests, conversion):
    timeline = iterate("datasets.arrow_dataset.Dataset", stack, requests=requests)
    facts = judge_all(CAUSE, [timeline]).get_facts(InputFacts)
    assert facts.conversion == conversion
    assert (facts.converted is not None) == bool(conversion)


@pytest.mark.parametrize("name", ["tf.data: next batch", "mine.Batches"])
def test_other_iterators_are_left_to_other_causes(name):
    assert judge_all(CAUSE, [iterate(name, "")]) is None


def test_a_short_wait_is_no_finding():
    assert judge_all(CAUSE, [iterate("grain._src.BatchIterator", "", wait_ms=0.05)]) is None


def without_waits():
    timeline = profile(gpu_job())
    waits = timeline.rows_of("loader")
    keep = [i for i in range(len(timeline.host)) if i not in set(waits.tolist())]
    return replace(timeline, host=timeline.host.take_rows(keep))


PAIRS = {CAUSE: Pair(sick=lambda: profile(cpu_job()), healthy=without_waits)}
