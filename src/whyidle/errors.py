"""Every error that whyidle raises on purpose.

::

    WhyidleError                 exit status 1: an operation of whyidle failed
    ├── InputError               a file or folder cannot be used
    │   ├── NotATraceError       it is not a recording that whyidle can read
    │   ├── BrokenTraceError     it is a recording, but nothing in it can be read
    │   └── OutputError          an output cannot be written
    ├── StoreError               the run store cannot be read or written
    ├── TrialError               a job cannot be tried: it fails, or has too few steps
    │   └── UndiagnosedError     a job with kept fixes runs, but cannot be diagnosed again
    ├── MissingExtraError        an optional dependency is missing; names the extra to install
    └── CatalogError             a plug-in breaks its contract

    UsageError                   exit status 2: the command line is wrong
    GateError                    exit status 3: a requested gate failed

Each message has three parts: what happened, why, and what to do next.
"""

from __future__ import annotations

from functools import partial
from typing import Any

INTERRUPTED = 130
"""exit status after Ctrl-C: 128 plus the signal, as a shell reports it"""


class WhyidleError(Exception):
    """Base of all errors that a user may see. ``exit_code`` is the exit status."""

    exit_code = 1

    def __init__(self, what: str, *, why: str = "", hint: str = "") -> None:
        self.what = what
        self.why = why
        self.hint = hint
        super().__init__(" ".join(part for part in (what, why, hint) if part))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), why=self.why, hint=self.hint), (self.what,)


class InputError(WhyidleError):
    """A file or folder cannot be used."""


class NotATraceError(InputError):
    """A file is not a recording that whyidle can read."""


class BrokenTraceError(InputError):
    """A file is a recording, but nothing in it can be read."""


class OutputError(InputError):
    """An output cannot be written."""


class StoreError(WhyidleError):
    """The run store cannot be read or written."""


class TrialError(WhyidleError):
    """A job cannot be tried."""


class UndiagnosedError(TrialError):
    """A job with kept fixes runs, but cannot be diagnosed again: no fault of the fixes."""


class MissingExtraError(WhyidleError):
    """An optional dependency is not installed."""


class CatalogError(WhyidleError):
    """A plug-in breaks its contract."""


class UsageError(WhyidleError):
    """The command line is wrong."""

    exit_code = 2


class GateError(WhyidleError):
    """A requested gate failed."""

    exit_code = 3
