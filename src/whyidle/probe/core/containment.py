"""The one place that contains our own failures inside somebody's process."""

from __future__ import annotations

import _thread
import os
import signal
from collections.abc import Callable
from types import FunctionType, MethodType, TracebackType
from typing import Any

seen: set[str] = set()
OF_A_FAULT = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")
"""signals that a thread raises against itself"""


def contain_fault(folder: str, where: str, error: BaseException, undo: Callable[[], Any]) -> None:
    """Take the faulty wrapper off, note the fault once, and never raise.

    Except for what is not ours: an exception of the job's own signal handler (a time-out, say) that
    happened to run inside our code is raised again.
    """
    if signal_of_handler(error) is not None:
        raise error
    try:
        undo()
    except Exception as another:  # nothing of ours may reach the job
        note_fault(folder, f"{where} (taking it off)", another)
    note_fault(folder, where, error)


def run_contained(folder: str, where: str, work: Callable[[], Any]) -> None:
    """Do a piece of work outside any hook: in a thread of our own, or at the process's end."""
    try:
        work()
    except Exception as error:  # a traceback of ours in the job's output would be harm
        note_fault(folder, where, error)


def start_thread(work: Callable[[], Any]) -> None:
    """Do it on a thread of our own, which the job's own count of threads does not see, and which
    takes none of the job's signals: one that the job holds back in all of its threads, to wait for
    it, would come to ours, and end the process. Held back before the thread begins."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _of_a_fault())
        _thread.start_new_thread(work, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _of_a_fault() -> set[signal.Signals]:
    return {getattr(signal, name) for name in OF_A_FAULT if hasattr(signal, name)}


def note_fault(folder: str, where: str, error: BaseException) -> None:
    """Write a fault down, once per place, for the diagnosis to report."""
    if where in seen:
        return
    seen.add(where)
    try:
        with open(os.path.join(folder, f"{os.getpid()}.faults"), "a", encoding="utf-8") as file:
            file.write(f"{where}: {type(error).__name__}: {error}".replace("\n", " ") + "\n")
    except OSError:
        pass


def signal_of_handler(error: BaseException) -> signal.Signals | None:
    """The signal whose handler raised ``error``; None where no handler did."""
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


def repeat_signal(error: BaseException) -> bool:
    """Whether a signal handler raised ``error``; if so the signal is repeated from outside.

    For callbacks whose exceptions Python drops, such as the collector's: without this, a Ctrl-C
    that arrives inside one would be lost.
    """
    number = signal_of_handler(error)
    if number is None:
        return False
    start_thread(lambda: _thread.interrupt_main(number))
    return True
