"""Imagined jobs, one healthy and one for each way of wasting a GPU; the contract suites and the
demo use them. Every number is a plausible one for an A100-class GPU; see ``builder``."""

from __future__ import annotations

from collections.abc import Callable
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


def healthy() -> Builder:
    """Workers that keep up, pinned copies, long bf16 matrix products, a fused optimizer."""
    job = Builder()
    for _ in range(STEPS):
        with job.step():
            job.loader(us(40), workers=4)
            job.copy("h2d", 1_000_000, pinned=True)
            _layers(job, 40, GEMM, us(500))
            job.optimizer([(FUSED_ADAM, us(200))])
    return job


def starved_by_loader() -> Builder:
    """A DataLoader without workers takes 35 ms for every 20 ms of compute."""
    job = Builder()
    for _ in range(STEPS):
        with job.step():
            job.loader(us(35_000))
            _layers(job, 40, GEMM, us(500))
            job.optimizer([(FUSED_ADAM, us(200))])
    return job


def pageable_copies() -> Builder:
    """Sixty megabytes a step from pageable memory, waited for."""
    job = Builder()
    for _ in range(STEPS):
        with job.step():
            job.loader(us(40), workers=4)
            job.copy("h2d", 60_000_000, pinned=False)
            _layers(job, 40, GEMM, us(500))
            job.optimizer([(FUSED_ADAM, us(200))])
    return job


def launch_bound() -> Builder:
    """A thousand kernels of three microseconds a step."""
    job = Builder()
    for _ in range(STEPS):
        with job.step():
            job.loader(us(40), workers=4)
            for _ in range(1000):
                job.op("aten::add", kernels=[(ADD, us(3))], host=us(8))
            job.optimizer([(FUSED_ADAM, us(20))])
    return job


def synchronising() -> Builder:
    """A scalar is read back after every layer; host and device work are alike."""
    job = Builder()
    for _ in range(STEPS):
        with job.step():
            job.loader(us(40), workers=4)
            for _ in range(20):
                _layers(job, 10, GEMM, us(25), host=us(12))
                job.item("train.py(31): log_loss;train.py(60): main")
            job.optimizer([(FUSED_ADAM, us(200))])
    return job


def single_precision() -> Builder:
    """Matrix products in fp32 on the SIMT units."""
    job = Builder()
    for _ in range(STEPS):
        with job.step():
            job.loader(us(40), workers=4)
            _layers(job, 40, SGEMM, us(500))
            job.optimizer([(FUSED_ADAM, us(200))])
    return job


def exposed_collectives() -> Builder:
    """One big all-reduce after the backward pass, nothing beside it."""
    job = Builder(rank=0, world_size=2)
    for _ in range(STEPS):
        with job.step():
            job.loader(us(40), workers=4)
            _layers(job, 40, GEMM, us(500))
            job.collective(us(12_000), elements=100_000_000)
            job.join()
            job.optimizer([(FUSED_ADAM, us(200))])
    return job


def allocating() -> Builder:
    """Device memory is allocated and freed in every step."""
    job = Builder()
    for _ in range(STEPS):
        with job.step():
            job.loader(us(40), workers=4)
            for _ in range(8):
                _layers(job, 5, GEMM, us(200))
                job.sync("cudaDeviceSynchronize")
                job.runtime("cudaFree", us(400))
                job.runtime("cudaMalloc", us(600))
            job.optimizer([(FUSED_ADAM, us(200))])
    return job


SICK: Final[dict[str, Callable[[], Builder]]] = {
    "starved_by_loader": starved_by_loader,
    "pageable_copies": pageable_copies,
    "launch_bound": launch_bound,
    "synchronising": synchronising,
    "single_precision": single_precision,
    "exposed_collectives": exposed_collectives,
    "allocating": allocating,
}
