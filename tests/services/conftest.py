"""Tests against real services: ``make test-services`` installs them where it can."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

REASON = "servers and jobs of their own start, listen and end beside the test"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.services)
            item.add_marker(pytest.mark.real_processes(REASON))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts programs that end with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*command: str, **more: object) -> subprocess.Popen[bytes]:
        log = (tmp_path / f"{Path(command[0]).name}-{len(running)}.log").open("wb")
        options = {"cwd": tmp_path, "stdout": log, "stderr": log, **more}
        running.append(subprocess.Popen(command, **options))  # type: ignore[call-overload]
        log.close()
        return running[-1]

    yield begin
    for process in running:
        process.terminate()
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()  # nothing, if it has ended
        process.wait()
