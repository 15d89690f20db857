"""Starts the command of a trial, and ends all of its processes: after itself, by a signal, or when
whyidle has died. A program of its own, by path, with the standard library only.

``trial_launcher.py PARENT GRACE COMMAND...`` runs the command in a session of its own. SIGTERM, and
the death of PARENT, end its process group: SIGTERM, GRACE seconds, SIGKILL. Processes that outlive
the command (loader workers, uploads of a tracker) have GRACE seconds to end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

DEATH_SIGNAL, SUBREAPER = 1, 36
"""``prctl``: the signal when the parent dies; orphans below become children of this process"""


def set_process_option(option: int, value: int) -> None:
    """Call ``prctl``; without it (not Linux) orphans are ended on resume only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def run_launcher(parent: int, grace_s: float, command: list[str]) -> int:
    """Run the command; return its status as a shell reports it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    set_process_option(DEATH_SIGNAL, signal.SIGTERM)
    set_process_option(SUBREAPER, 1)
    if os.getppid() != parent:  # it died before we asked to be told
        return 128 + signal.SIGTERM
    child = os.fork()
    if child == 0:
        _become_command(command)
    status, asked = None, False
    while status is None:
        received = signal.sigtimedwait({signal.SIGTERM, signal.SIGCHLD}, 1.0)
        if received is not None and received.si_signo == signal.SIGTERM:
            status, asked = _end_group(child, grace_s), True
        else:
            status = _reap(child)
    _end_rest(0.0 if asked else grace_s, grace_s)
    return os.waitstatus_to_exitcode(status)


def _become_command(command: list[str]) -> None:
    os.setsid()
    set_process_option(DEATH_SIGNAL, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGCHLD})
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"Cannot run {command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _reap(child: int) -> int | None:
    """The status of the command if it has ended; also buries orphans."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in (0, child):
                return status if pid == child else None
    return None


def _end_group(child: int, grace_s: float) -> int:
    _signal_group(child, signal.SIGTERM)
    until = time.monotonic() + grace_s
    while time.monotonic() < until:
        if (status := _reap(child)) is not None:
            return status
        time.sleep(0.01)
    _signal_group(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _end_rest(wait_s: float, grace_s: float) -> None:
    """Wait for what the command left behind, then end it."""
    for phase_s, number in ((wait_s, 0), (grace_s, signal.SIGTERM), (5.0, signal.SIGKILL)):
        until = time.monotonic() + phase_s
        for pid in _children() if number else ():
            _signal_group(pid, number)
        while _children() and time.monotonic() < until:
            time.sleep(0.01)
            _reap(-1)


def _children() -> list[int]:
    """Living children of this process, orphans that it adopted included."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):  # not Linux
        return []


def _signal_group(pid: int, number: int) -> None:
    """Send a signal once: a second one would kill a program that is leaving after the first."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)
            return


if __name__ == "__main__":
    code = run_launcher(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
    sys.exit(code if code >= 0 else 128 - code)
