"""Every error that whyidle raises on purpose.

::

    WhyidleError                 exit status 1: something of ours could not be done
    ├── InputError               the file or folder that was named cannot be used
    │   ├── NotATraceError       it is not a recording we know; says what it looks like
    │   ├── BrokenTraceError     it is one, but nothing in it could be read
    │   └── OutputError          what was asked for could not be written there
    ├── StoreError               the run store cannot be read or written
    ├── TrialError               a job cannot be tried: it does not run, or shows too few steps
    ├── MissingExtraError        an optional dependency is absent; names the extra to install
    └── CatalogError             a plug-in file does not keep its contract (a programming mistake)

    UsageError                   exit status 2: the command line asks for something impossible
    GateError                    exit status 3: a gate that the user asked for did not hold

Each message has three parts: what happened, why, and what to do next.
"""

from __future__ import annotations


class WhyidleError(Exception):
    """Base of all errors that a user may see. ``exit_code`` is the process's exit status."""

    exit_code = 1

    def __init__(self, what: str, *, why: str = "", hint: str = "") -> None:
        self.what = what
        self.why = why
        self.hint = hint
        super().__init__(" ".join(part for part in (what, why, hint) if part))


class InputError(WhyidleError):
    """The file or folder that was named cannot be used."""


class NotATraceError(InputError):
    """The file is not a recording that any importer knows."""


class BrokenTraceError(InputError):
    """The file is a recording, but nothing in it could be read."""


class OutputError(InputError):
    """What was asked for could not be written where it was asked for."""


class StoreError(WhyidleError):
    """The run store cannot be read or written."""


class TrialError(WhyidleError):
    """A job cannot be tried."""


class MissingExtraError(WhyidleError):
    """An optional dependency is not installed."""


class CatalogError(WhyidleError):
    """A plug-in file does not keep its contract."""


class UsageError(WhyidleError):
    """The command line asks for something impossible."""

    exit_code = 2


class GateError(WhyidleError):
    """A gate that the user asked for did not hold."""

    exit_code = 3
