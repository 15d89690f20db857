"""Every test works in a folder of its own, whose store is empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.testing.builder import Builder, ms, us


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("WHYIDLE_HOME", "WHYIDLE_RUN", "WHYIDLE_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def trace_of(folder: Path, loader_ms: float) -> Path:
    """A recording of a job whose GPU waits for a loader without workers."""
    built = Builder()
    for step in range(6):
        with built.step():
            built.loader(ms(loader_ms + 0.01 * step))
            built.op("aten::mm", kernels=[("sgemm", ms(4))], dims=[[64, 64], [64, 64]])
            built.optimizer(kernels=[("multi_tensor_apply_kernel", us(50))])
            built.sync()
    return built.save(folder / f"trace-{loader_ms}.json.gz")


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    return trace_of(tmp_path, 5)


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    return trace_of(tmp_path, 1)
