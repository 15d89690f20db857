"""Every command-line test works in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.testing.builder import Builder, ms, us


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("WHYIDLE_HOME", "NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def job(loader_ms: float, steps: int = 6) -> Builder:
    """A job whose GPU waits for a loader without workers; each step a little longer."""
    built = Builder()
    for step in range(steps):
        with built.step():
            built.loader(ms(loader_ms + 0.01 * step))
            built.op("aten::mm", kernels=[("sgemm", ms(4))], dims=[[64, 64], [64, 64]])
            built.optimizer(kernels=[("multi_tensor_apply_kernel", us(50))])
            built.sync()
    return built


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return job(5).save(tmp_path / "trace.json.gz")


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    """The same job without waiting."""
    return job(0.05).save(tmp_path / "fixed.json.gz")
