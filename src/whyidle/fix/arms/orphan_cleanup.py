"""Ends processes that an arm leaves behind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil


def descendants(pid: int) -> list[psutil.Process]:
    """Living descendants of a process."""
    with suppress(psutil.Error, OSError):
        return psutil.Process(pid).children(recursive=True)
    return []


def is_finished(pid: int) -> bool:
    """Whether only stopped shells are left, which would continue with their script."""
    with suppress(psutil.Error, OSError):
        if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
            still = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
            return all(each.status() in still for each in descendants(pid))
    return False


def end_processes(recording: Path, descended: Sequence[psutil.Process]) -> None:
    """End all processes of an arm, and wait until they are gone.

    Launchers start ranks in sessions of their own, so processes are found by the recording in their
    environment. A process that is just starting has none yet; ``descended`` are known descendants.
    """
    until = time.monotonic() + 5.0  # a killed process frees its memory first
    left = [*descended, *_recorded_processes(recording)]
    while (
        left := [process for process in left if _is_alive(process)]
    ) and time.monotonic() < until:
        for process in left:
            with suppress(psutil.Error, OSError):
                process.kill()
        time.sleep(0.01)
        left += _recorded_processes(recording)


def _recorded_processes(recording: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _run_of(process) == str(recording)]


def _run_of(process: psutil.Process) -> str | None:
    with suppress(psutil.Error, OSError):
        return process.environ().get("WHYIDLE_RUN")
    return None


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error, OSError):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
