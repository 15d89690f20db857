"""Imagined jobs, one healthy and one per way of wasting a GPU, for the contract suites and the
demo. Numbers are plausible for an A100-class GPU; see ``builder``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from whyidle.testing.builder import Builder, us

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
SGEMM = "ampere_sgemm_128x128_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
FUSED_ADAM = "multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"
STEPS = 6


def _layers(job: Builder, count: int, kernel: str, duration: int, *, host: int = us(6)) -> None:
    for _ in range(count):
        dims = [[4096, 4096], [4096, 4096]]
        types = ["c10::BFloat16"] * 2 if "bf16" in kernel else ["float"] * 2
        job.op("aten::mm", kernels=[(kernel, duration)], dims=dims, types=types, host=host)


def _train(
    job: Builder, *, wait: int = us(40), workers: int = 4, update: int = us(200)
) -> Iterator[None]:
    for _ in range(STEPS):
        with job.step():
            job.loader(wait, workers=workers)
            yield
            job.optimizer([(FUSED_ADAM, update)])


def healthy() -> Builder:
    """Return a job with fast workers, pinned copies, long bf16 products and a fused optimizer."""
    job = Builder()
    for _ in _train(job):
        job.copy("h2d", 1_000_000, pinned=True)
        _layers(job, 40, GEMM, us(500))
    return job


def starved_by_loader() -> Builder:
    """Return a job whose DataLoader without workers takes 35 ms per 20 ms of compute."""
    job = Builder()
    for _ in _train(job, wait=us(35_000), workers=0):
        _layers(job, 40, GEMM, us(500))
    return job


def pageable_copies() -> Builder:
    """Return a job that waits for 60 MB per step from pageable memory."""
    job = Builder()
    for _ in _train(job):
        job.copy("h2d", 60_000_000, pinned=False)
        _layers(job, 40, GEMM, us(500))
    return job


def launch_bound() -> Builder:
    """Return a job with a thousand kernels of three microseconds per step."""
    job = Builder()
    for _ in _train(job, update=us(20)):
        for _ in range(1000):
            job.op("aten::add", kernels=[(ADD, us(3))], host=us(8))
    return job


def synchronizing_job() -> Builder:
    """Return a job that reads a scalar after every few layers."""
    job = Builder()
    for _ in _train(job):
        for _ in range(20):
            _layers(job, 10, GEMM, us(25), host=us(12))
            job.item("train.py(31): log_loss;train.py(60): main")
    return job


def single_precision() -> Builder:
    """Return a job with fp32 matrix products on the SIMT units."""
    job = Builder()
    for _ in _train(job):
        _layers(job, 40, SGEMM, us(500))
    return job


def exposed_collectives() -> Builder:
    """Return a job with one large all-reduce after the backward pass, without overlap."""
    job = Builder(rank=0, world_size=2)
    for _ in _train(job):
        _layers(job, 40, GEMM, us(500))
        job.collective(us(12_000), elements=100_000_000)
        job.join()
    return job


def allocating_job() -> Builder:
    """Return a job that allocates and frees device memory in every step."""
    job = Builder()
    for _ in _train(job):
        for _ in range(8):
            _layers(job, 5, GEMM, us(200))
            job.sync("cudaDeviceSynchronize")
            job.runtime("cudaFree", us(400))
            job.runtime("cudaMalloc", us(600))
    return job


SICK: Final[dict[str, Callable[[], Builder]]] = {
    "starved_by_loader": starved_by_loader,
    "pageable_copies": pageable_copies,
    "launch_bound": launch_bound,
    "synchronising": synchronizing_job,
    "single_precision": single_precision,
    "exposed_collectives": exposed_collectives,
    "allocating": allocating_job,
}
