"""Ending what an arm leaves behind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

GONE_S = 5.0
"""how long a killed process is waited for: it frees its memory before it goes"""


def descendants(pid: int) -> list[psutil.Process]:
    """All that a process has started and that is there."""
    with suppress(psutil.Error, OSError):
        return psutil.Process(pid).children(recursive=True)
    return []


def is_finished(pid: int) -> bool:
    """Whether nothing is left of a command but shells that were stopped, so that they do not go on
    after what they started has ended."""
    with suppress(psutil.Error, OSError):
        if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
            still = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
            return all(each.status() in still for each in descendants(pid))
    return False


def end_processes(recording: Path, descended: Sequence[psutil.Process]) -> None:
    """End what the command left behind, and see it gone: launchers start their ranks in sessions of
    their own. Every process of the arm has the name of its recording in its environment, but one
    that is just being started can not be asked for it: ``descended`` are those known by
    descent."""
    until = time.monotonic() + GONE_S
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
    """Whether it is more than an entry that nobody has asked about yet."""
    with suppress(psutil.Error, OSError):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
