"""Imagined jobs with known truths, in styles that no cause was written for: the leading finding,
the bucket, and silence on what is healthy or merely looks sick. Where a job has a twin with the fix
applied, the prediction must hold what the twin shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import msgspec
import pytest

from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.timeline import Timeline
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Fleet

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
SGEMM = "ampere_sgemm_128x128_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
ADAM = "multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"
Job = Builder | Fleet
Body = Callable[[Builder, int], object]


def steps(body: Body, count: int = 8) -> Builder:
    job = Builder()
    for step in range(count):
        with job.step():
            body(job, step)
    return job


def layers(job: Builder, count: int, length: float = 400, kernel: str = GEMM) -> None:
    for _ in range(count):
        job.op("aten::mm", kernels=[(kernel, us(length))])


def train(job: Builder, count: int = 40, length: float = 400, *, read: bool = False) -> None:
    """A step that wastes nothing: the host is far ahead, unless it reads the loss."""
    job.copy("h2d", 1_000_000)
    layers(job, count, length)
    job.optimizer([(ADAM, us(200))], name="AdamW")
    if read:
        job.item("train.py(9): loop")


# -- input -------------------------------------------------------------------------------------


def no_workers(workers: int, marks: str = "profiler", read: bool = True) -> Builder:
    job, ready = Builder(), 0
    for step in range(12):
        begin = job.now
        ready = max(ready + ms(12) // max(workers, 1), begin if step else 0)
        job.loader(max(ready - begin, us(60)) if workers else ms(12), workers=workers)
        train(job, read=read)
        if marks == "profiler":
            job._host("user_annotation", f"ProfilerStep#{step}", begin, job.now, {})
    return job


def two_workers(making: int) -> Builder:
    """Batches come at a fixed rate, whatever the training loop does."""
    ready = [0]

    def body(job: Builder, step: int) -> None:
        ready[0] = max(ready[0] + making, job.now) if step else job.now
        job.loader(max(ready[0] - job.now, us(60)), workers=2)
        train(job)

    return steps(body, 20)


def own_input(ahead: bool) -> Builder:
    def body(job: Builder, _: int) -> None:
        with job.span("train.py(12): loop", "python_function"):
            if not ahead:
                with job.span("data.py(40): get_batch", "python_function"):
                    job.python("<built-in method decode of ImagingDecoder object>", ms(15))
            train(job, read=True)

    return steps(body)


# -- host, copies ------------------------------------------------------------------------------


def graph(job: Builder, count: int, length: float, kernel: str = GEMM) -> None:
    """Many kernels behind one launch."""
    correlation, begin = job._next(), job.now
    for _ in range(count):
        job._device("kernel", kernel, begin, us(length), stream=7, correlation=correlation, args={})
    job.runtime("cudaGraphLaunch", us(20), correlation)


def small_kernels(graphed: bool) -> Builder:
    def body(job: Builder, _: int) -> None:
        if graphed:
            graph(job, 300, 5, SGEMM)
        else:
            for _ in range(300):
                job.op("aten::mm", kernels=[(SGEMM, us(5))], host=us(10))

    return steps(body)


def outputs_read_back(size: int) -> Builder:
    def body(job: Builder, _: int) -> None:
        train(job, 30)
        if size:
            job.copy("d2h", size, pinned=False)

    return steps(body)


def tiny_pageable_copies(job: Builder, _: int) -> None:
    for _ in range(3):
        job.copy("h2d", 2_048, pinned=False)
    train(job)


# -- interruptions -----------------------------------------------------------------------------


def pausing(frame: str, every: int, pause: int) -> Builder:
    """The host is steps ahead of its device when it pauses."""

    def body(job: Builder, step: int) -> None:
        train(job)
        if pause and step % every == every - 1:
            with job.span(frame, "python_function"):
                job.sync()
                job.quiet(pause)

    return steps(body, 12)


def evaluating(job: Builder) -> None:
    with job.span("train.py(99): evaluate", "python_function"):
        for _ in range(30):
            layers(job, 4, 50)
            job.item("train.py(101): evaluate")
            job.quiet(us(900))


def warm_up_allocations(job: Builder, step: int) -> None:
    if step == 0:
        for _ in range(30):
            job.runtime("cudaMalloc", us(700))
            layers(job, 1)
    train(job)


# -- several ranks -----------------------------------------------------------------------------


def ddp(
    ranks: int = 2,
    *,
    buckets: int = 4,
    micro: int = 1,
    synced: bool = False,
    late: int | None = None,
    offsets: tuple[int, ...] = (),
) -> Fleet:
    fleet = Fleet(ranks, offsets_ns=offsets)
    for _ in range(6):
        with fleet.step():
            if late is not None:
                fleet.ranks[late].python("train.py(7): slow_thing", ms(25))
            for index in range(micro):
                for rank in fleet.ranks:
                    with rank.span("DistributedDataParallel.forward"):
                        layers(rank, 10)
                for _ in range(buckets):
                    for rank in fleet.ranks:
                        layers(rank, 24 // buckets)
                    if synced or index == micro - 1:
                        fleet.collective(ms(4) // buckets, elements=24_000_000 // buckets)
                fleet.join()
            for rank in fleet.ranks:
                rank.optimizer([(ADAM, us(200))], name="AdamW")
                rank.item()
    return fleet


# -- the table ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """``cause`` leads the findings (None: nothing above ``info``), ``bucket`` bounds the job, and
    ``cured`` shows what ``fix`` brings."""

    job: Callable[[], Job]
    cause: str | None = None
    bucket: str | None = "compute"
    cured: Callable[[], Job] | None = None
    fix: str | None = None


WORKERS = "loader-workers"
TRUTHS = {
    "no workers": Truth(
        lambda: no_workers(0), "dataloader-no-workers", "input", lambda: no_workers(4), WORKERS
    ),
    "no workers, no marks": Truth(
        lambda: no_workers(0, marks=""),
        "dataloader-no-workers",
        "input",
        lambda: no_workers(4, marks=""),
        WORKERS,
    ),
    "no workers, hidden behind compute": Truth(lambda: no_workers(0, read=False)),
    "workers too slow for a host that runs ahead": Truth(
        lambda: two_workers(ms(30)),
        "dataloader-too-few-workers",
        "input",
        lambda: two_workers(ms(15)),
        WORKERS,
    ),
    "a loader of its own": Truth(
        lambda: own_input(False),
        "heavy-cpu-transform",
        "input",
        lambda: own_input(True),
        "transforms-in-workers",
    ),
    "launch-bound in fp32": Truth(
        lambda: small_kernels(False),
        "launch-bound-small-kernels",
        "host",
        lambda: small_kernels(True),
        "cuda-graphs",
    ),
    "healthy graphs": Truth(lambda: steps(lambda job, _: graph(job, 600, 9))),
    "outputs read back": Truth(
        lambda: outputs_read_back(100_000_000),
        "large-d2h-copy",
        "transfer",
        lambda: outputs_read_back(0),
        "read-back-less",
    ),
    "tiny pageable copies": Truth(lambda: steps(tiny_pageable_copies)),
    "a loss read in every step, queued again at once": Truth(
        lambda: steps(lambda job, _: train(job, 60, read=True))
    ),
    "a checkpoint every third step": Truth(
        lambda: pausing("train.py(80): save_checkpoint", 3, ms(120)),
        "sync-checkpoint",
        "interruption",
        lambda: pausing("train.py(80): save_checkpoint", 3, 0),
        "async-checkpoint",
    ),
    "evaluation while the device is behind": Truth(
        lambda: steps(lambda job, step: (train(job), evaluating(job) if step % 4 == 3 else None)),
        "heavy-evaluation",
        "interruption",
    ),
    "allocations of the warm-up": Truth(lambda: steps(warm_up_allocations, 10)),
    "lengths that differ": Truth(
        lambda: steps(lambda job, s: train(job, 40, 150 * (s % 5 + 1)), 20)
    ),
    "two steps": Truth(lambda: steps(lambda job, _: train(job), 2)),
    "gradients behind the backward pass": Truth(ddp),
    "one exchange after it": Truth(
        lambda: ddp(buckets=1), "exposed-gradient-comm", "communication", ddp, "overlap-exchange"
    ),
    "an exchange per micro-batch": Truth(
        lambda: ddp(buckets=1, micro=4, synced=True),
        "allreduce-every-microstep",
        "communication",
        lambda: ddp(buckets=1, micro=4),
        "no-sync-accumulation",
    ),
    "one exchange per accumulated step": Truth(lambda: ddp(micro=4)),
    "one late rank of four, clocks apart": Truth(
        lambda: ddp(4, late=2, offsets=(0, ms(5), -ms(3), ms(700))),
        "late-rank",
        "communication",
        lambda: ddp(4),
        None,
    ),
}


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS.keys())
def test_truth(truth: Truth) -> None:
    recorded = _timelines(truth.job())
    diagnosis = diagnose_job(recorded)
    serious = [finding for finding in diagnosis.findings if finding.severity != "info"]
    assert (serious[0].cause if serious else None) == truth.cause
    assert diagnosis.verdict.bound == truth.bucket
    _check(diagnosis)
    if truth.cured:
        speedup = _step_s(recorded) / _step_s(_timelines(truth.cured()))
        offers = serious[0].fixes
        told = next(p.predicted for p in offers if truth.fix in (p.fix, None))
        assert told.low * 0.98 <= speedup <= told.high * 1.02


def _timelines(job: Job) -> list[Timeline]:
    return job.timelines() if isinstance(job, Fleet) else [job.timeline()]


def _step_s(timelines: list[Timeline]) -> float:
    return Facts(timelines[0]).step_s


def _check(diagnosis: Diagnosis) -> None:
    """What holds for every diagnosis."""
    shares = msgspec.to_builtins(diagnosis.attribution)
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-6)
    assert all(share >= 0.0 for share in shares.values())
    assert all(isfinite(number) for number in _numbers(msgspec.to_builtins(diagnosis)))
    found = diagnosis.findings
    assert [f.lost.high for f in found] == sorted((f.lost.high for f in found), reverse=True)
    claimed = dict.fromkeys(shares, 0.0)
    for finding in found:
        assert 0.0 <= finding.lost.low <= finding.lost.high <= shares[finding.bucket] + 1e-6
        claimed[finding.bucket] += (finding.lost.low + finding.lost.high) / 2
        told = [p.predicted for p in finding.fixes if p.predicted]
        assert all(p.low <= p.speedup <= p.high for p in told)
        worth = max((p.speedup for p in told), default=1.0)
        assert finding.severity == "info" or worth >= 1.03
    assert all(claimed[bucket] <= shares[bucket] + 1e-6 for bucket in shares)
    serious = any(finding.severity != "info" for finding in found)
    assert (diagnosis.verdict.state in ("starved", "inefficient")) == serious


def _numbers(part: Any) -> Iterator[float]:
    if isinstance(part, float):
        yield part
    elif isinstance(part, dict | list):
        for each in part.values() if isinstance(part, dict) else part:
            yield from _numbers(each)
