"""The demonstration's recording: ``python -m whyidle.testing.demo PATH`` writes it. An imagined
fine-tuning run on one imagined GPU with typical faults: the DataLoader works in the training
process, batches are copied from pageable memory, matrix products run in fp32, the optimizer
launches a kernel per tensor, and the loss is read in every step. Nothing was measured on hardware,
which the recording states."""

from __future__ import annotations

import sys
from pathlib import Path

from whyidle.testing.builder import Builder, ms, us

STEPS = 8
LAYERS = 24
_BATCH_BYTES = 64 * 3 * 224 * 224 * 4
_SGEMM = "ampere_sgemm_128x128_tn"
_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
_GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>"
_ADAM = "void at::native::vectorized_elementwise_kernel<4, at::native::AddcdivFunctor<float>>"


def job(*, loader_ms: float = 42.0) -> Builder:
    """Return the faulty job; ``loader_ms`` is the GPU's wait for the loader in each step."""
    built = Builder()
    for step in range(STEPS):
        late = 0.6 * (step * 5 % 3)  # a loader is never quite even
        with built.step(), built.span("train.py(58): main", "python_function"):
            built.loader(ms(loader_ms + late))
            with built.span("train.py(61): to_device", "python_function"):
                built.copy("h2d", _BATCH_BYTES, pinned=False)
            with built.span("model.py(112): forward", "python_function"):
                _layers(built, us(260))
            with built.span("train.py(64): backward", "python_function"):
                _layers(built, us(520))
            with built.span("train.py(65): update", "python_function"):
                _update(built)
            with built.span("train.py(67): log_loss", "python_function"):
                built.item()
    return built


def _layers(built: Builder, product: int) -> None:
    for _ in range(LAYERS):
        dims = [[12608, 768], [768, 3072]]
        built.op("aten::addmm", kernels=[(_SGEMM, product)], dims=dims)
        built.op("aten::native_layer_norm", kernels=[(_NORM, us(24))])
        built.op("aten::gelu", kernels=[(_GELU, us(31))])


def _update(built: Builder) -> None:
    with built.span("Optimizer.step#AdamW.step"):
        for _ in range(6 * LAYERS):
            built.op("aten::addcdiv_", kernels=[(_ADAM, us(9))])


def main() -> None:
    """Write the recording to the given path."""
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    print(job().save(path))


if __name__ == "__main__":
    main()
