"""The batch: its size from shapes, and what a larger one costs."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import (
    bound_larger_batch,
    find_batch_size,
    predict_larger_batch,
    samples_per_s,
)
from whyidle.model.loader_tables import BATCH, TAKE, Iterator, Loading
from whyidle.model.process_facts import LoaderFacts
from whyidle.readers import kineto
from whyidle.testing.builder import Builder, ms, us

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
BANDWIDTH = 2039  # GB/s, A100 80 GB, as the table of peaks has it
LATENCY = us(4)


def elementwise(batch):
    """Kernels that take a latency and then move their bytes at 70 % of the bandwidth."""
    job = Builder(device="NVIDIA A100-SXM4-80GB")
    moved = 3 * 4 * batch * 1024
    for _ in range(4):
        with job.step():
            for _ in range(100):
                job.op(
                    "aten::add",
                    kernels=[(ADD, LATENCY + round(moved / (0.7 * BANDWIDTH)))],
                    dims=[[batch, 1024], [batch, 1024], []],
                    types=["float", "float", "Scalar"],
                    host=us(8),
                )
    return Facts(job.timeline())


@pytest.mark.parametrize("times", [2, 8, 64, 512])
@pytest.mark.parametrize("batch", [4, 64, 1024])
def test_the_interval_covers_the_larger_batch(batch, times):
    predicted = predict_larger_batch(elementwise(batch), times)
    real = elementwise(batch * times).step_s
    assert predicted is not None
    assert predicted.best_s <= real <= predicted.worst_s
    assert predicted.step_s == pytest.approx(real, rel=0.35)


@pytest.mark.parametrize("times", [2, 8, 64])
@pytest.mark.parametrize("batch", [4, 64])
def test_what_needs_no_peaks_covers_it_too_and_says_less(batch, times):
    facts = elementwise(batch)
    found, known = bound_larger_batch(facts, times), predict_larger_batch(facts, times)
    real = elementwise(batch * times).step_s
    assert found.best_s <= known.best_s <= real <= known.worst_s <= found.worst_s


def test_nothing_is_predicted_without_shapes_or_an_unknown_device():
    job = Builder(device="NVIDIA A100-SXM4-80GB")
    with job.step():
        job.op("aten::add", kernels=[(ADD, us(4))])
    assert predict_larger_batch(Facts(job.timeline()), 2.0) is None
    other = Builder(device="Some Accelerator")
    with other.step():
        other.op("aten::add", kernels=[(ADD, us(4))], dims=[[4, 4], [4, 4]])
    assert predict_larger_batch(Facts(other.timeline()), 2.0) is None


def image_model(*passes, batch=32):
    job = Builder()
    for _ in range(4):
        with job.step():
            for part in passes:
                job.op("aten::conv2d", dims=[[part or batch, 3, 8, 8], [16, 3, 3, 3]])
                job.op("aten::batch_norm", dims=[[part or batch, 16, 8, 8], [16]])
                job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(1000))])
                job.op("aten::nll_loss", dims=[[part or batch, 10], [part or batch]])
    return Facts(job.timeline())


def test_the_batch_is_what_all_operators_agree_on():
    facts = image_model(None)
    assert find_batch_size(facts) == 32
    assert samples_per_s(facts) == pytest.approx(32 / facts.step_s)


def test_several_passes_or_different_batches_are_not_proof():
    assert find_batch_size(image_model(None, None)) is None
    assert find_batch_size(image_model(None, 16)) is None
    job = Builder()
    with job.step():
        job.op("aten::conv2d", dims=[[8, 3, 8, 8], [16, 3, 3, 3]])
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(1000))])
    assert find_batch_size(Facts(job.timeline())) is None


def traces():
    told = os.environ.get("WHYIDLE_TRACES")
    folder = Path(told) if told else Path(__file__).parents[4] / "shared" / "traces"
    return folder / "kineto"


@pytest.mark.parametrize(
    ("small", "large"), [(2, 8), (2, 32), (2, 128), (8, 32), (8, 128), (32, 128)]
)
def test_real_recordings_of_a_larger_batch_are_covered(small, large):
    name = "particle_transformer_a100_bs{}.pt.trace.json.gz"
    if not (traces() / name.format(small)).exists():
        pytest.skip("the shared traces are not beside the repository")
    predicted = predict_larger_batch(
        Facts(kineto.load(traces() / name.format(small))), large / small
    )
    real = Facts(kineto.load(traces() / name.format(large))).step_s
    assert predicted is not None
    assert predicted.best_s <= real <= predicted.worst_s
    assert predicted.step_s == pytest.approx(real, rel=0.1)


def fed(*, calls=0, cold_ms=0, **loading):
    """Ten steps of some 10 ms whose batches come from loaders, after one that takes longer."""
    job = Builder()
    if cold_ms:
        with job.step():
            job.loader(ms(1))
            job.python("train.py(1): main", ms(cold_ms))
    for _ in range(10):
        with job.step():
            for _ in range(calls):
                job.loader(ms(1))
            job.python("train.py(1): main", ms(10) - calls * ms(1))
    timeline = job.timeline()
    return Facts(replace(timeline, loading=Loading(**loading)))


def test_throughput_is_the_batches_made_in_the_training_process_times_those_counted():
    batches = np.zeros(2, BATCH)
    batches["samples"], batches["worker"] = 32, -1
    assert samples_per_s(fed(calls=1, batches=batches)) == pytest.approx(3200, rel=0.15)
    assert samples_per_s(fed(calls=2, batches=batches)) == pytest.approx(6400, rel=0.15)


def test_throughput_is_what_was_taken_from_workers_whose_own_batches_do_not_count_twice():
    batches, takes = np.zeros(40, BATCH), np.zeros(10, TAKE)
    batches["samples"], batches["worker"] = 32, 1
    takes["end"], takes["iterator"] = ms(1) + ms(10) * np.arange(10), 1
    loaders = (LoaderFacts(workers=2, batch_size=32),)
    told = fed(batches=batches, takes=takes, loaders=loaders, iterators=(Iterator(0, 1, 0),))
    assert samples_per_s(told) == pytest.approx(3200, rel=0.15)


def test_a_cold_start_is_none_of_the_throughput():
    batches = np.zeros(2, BATCH)
    batches["samples"], batches["worker"] = 32, -1
    facts = fed(calls=1, cold_ms=1000, batches=batches)
    assert facts.slow_start
    assert samples_per_s(facts) == pytest.approx(3200, rel=0.15)


def test_larger_batches_of_an_evaluation_before_training_are_none_of_the_throughput():
    """Lightning checks that validation works before it trains."""
    batches = np.zeros(8, BATCH)
    batches["samples"], batches["worker"] = 32, -1
    batches["samples"][:4] = 128
    batches["end"] = [*np.full(4, ms(1)), *(ms(12) + ms(10) * np.arange(4))]
    assert samples_per_s(fed(calls=1, batches=batches)) == pytest.approx(3200, rel=0.15)


def test_no_loader_no_throughput():
    assert samples_per_s(fed()) is None


@pytest.mark.parametrize(("wait_us", "limited"), [(30, False), (400, True)])
def test_workers_limit_a_larger_batch_only_if_they_are_waited_for(wait_us, limited):
    """Taking a batch that is ready takes 50 us, too."""
    job = Builder(device="NVIDIA A100-SXM4-80GB")
    for _ in range(4):
        with job.step():
            job.loader(us(wait_us), workers=2)
            for _ in range(100):
                job.op("aten::add", kernels=[(ADD, us(2))], host=us(8))
    found = bound_larger_batch(Facts(job.timeline()), 4.0)
    assert (found.step_s >= 4.0 * found.now_s) == limited
