"""Contains the probe's own failures inside the user's process."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any

seen: set[str] = set()
OF_A_FAULT = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")
"""signals that a thread raises against itself"""


def contain_fault(folder: str, where: str, error: BaseException, undo: Callable[[], Any]) -> None:
    """Remove the faulty wrapper and record the fault once, without raising.

    An exception of the job's own signal handler (a time-out, for example) that ran inside the
    probe's code is raised again.
    """
    if signal_of_handler(error) is not None:
        raise error
    try:
        undo()
    except Exception as another:  # no fault of the probe may reach the job
        note_fault(folder, f"{where} (removing it)", another)
    note_fault(folder, where, error)


def run_contained(folder: str, where: str, work: Callable[[], Any]) -> None:
    """Do work outside any hook: in a thread of the probe, or at the end of the process."""
    try:
        work()
    except Exception as error:  # the job's output must not show a traceback of the probe
        note_fault(folder, where, error)


def start_thread(work: Callable[[], Any]) -> None:
    """Run ``work`` on a thread that ``threading`` does not count and that receives no signals.

    A signal that the job blocks in all of its threads, in order to wait for it, would otherwise be
    delivered to this thread and end the process. Signals are blocked before the thread begins.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _of_a_fault())
        _thread.start_new_thread(work, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _of_a_fault() -> set[signal.Signals]:
    return {getattr(signal, name) for name in OF_A_FAULT if hasattr(signal, name)}


def note_fault(folder: str, where: str, error: BaseException) -> None:
    """Record a fault, once per place, for the diagnosis to report."""
    if where in seen:
        return
    seen.add(where)
    try:
        with open(os.path.join(folder, f"{os.getpid()}.faults"), "a", encoding="utf-8") as file:
            file.write(f"{where}: {type(error).__name__}: {error}".replace("\n", " ") + "\n")
    except OSError:
        pass


def signal_of_handler(error: BaseException) -> signal.Signals | None:
    """Return the signal whose handler raised ``error``; None if no handler did."""
    codes = set()
    at: TracebackType | None = error.__traceback__
    while at is not None:
        codes.add(at.tb_frame.f_code)
        at = at.tb_next
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        handler = handler.__func__ if isinstance(handler, MethodType) else handler
        if isinstance(handler, FunctionType) and handler.__code__ in codes:
            return signal.Signals(number)
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    return None


def repeat_signal(error: BaseException, caller: CodeType) -> bool:
    """Send the signal again if a signal handler raised ``error``; return whether it did.

    For callbacks whose exceptions Python drops, such as the collector's: a Ctrl-C that arrives
    inside one would otherwise be lost. ``caller`` is the callback's code.
    """
    number = signal_of_handler(error)
    if number is None:
        return False
    start_thread(lambda: _interrupt_outside(number, caller))
    return True


def _interrupt_outside(number: signal.Signals, caller: CodeType) -> None:
    """Send a signal once the main thread has left ``caller``, where it would be lost again."""
    main = threading.main_thread().ident or 0
    for _ in range(1000):
        frame = sys._current_frames().get(main)
        if frame is None or (frame.f_code is not caller and frame.f_code.co_filename != __file__):
            break
        time.sleep(0)
    time.sleep(0.001)  # until it is in the call that waits, if that is next
    if callable(signal.getsignal(number)):
        signal.pthread_kill(main, number)  # which ends such a call
