"""Watching the process that this is called in: a notebook, or a script that runs by itself."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Literal

from whyidle.api.documents import Diagnosis
from whyidle.engine.recording.launcher import BOOT, CommandEnd, WatchLimits, command_environment
from whyidle.engine.recording.recording_diagnosis import diagnose_recording, note_end, start_monitor
from whyidle.errors import UsageError, WhyidleError
from whyidle.store.entry import RECORDING, Entry
from whyidle.store.location import locate_store

Profile = Literal["auto", "off", "look"]
INTERRUPTED = 130
"""exit status of what Ctrl-C ended"""
PROBE = "_whyidle_probe"
"""the name under which the probe is imported"""


def watch(store: str | Path | None = None, profile: Profile = "auto") -> Watch:
    """Watch the own process from the beginning of a ``with`` block to its end.

    Only this process and the loader workers that it starts in the block are watched; for a job of
    several ranks use ``whyidle run``. In a process that ``whyidle run`` watches, and where
    ``WHYIDLE_DISABLE=1`` is set, the block runs and ``w.diagnosis`` is None.

    Args:
        store: the folder of the run store; the default is ``$WHYIDLE_HOME``, else ``.whyidle`` in
            the working directory.
        profile: ``auto`` records every operator of a few steps with the framework's profiler once
            step times are steady, ``off`` never does, and ``look`` does so immediately.

    Examples:
        >>> with whyidle.watch() as w:
        ...     train()
        >>> w.diagnosis
    """
    return Watch(store, profile)


class Watch:
    """One recording of the own process. ``diagnosis`` is there once it has stopped.

    ``start`` and ``stop`` are for callers that cannot use a ``with`` block, such as callbacks.
    """

    def __init__(self, store: str | Path | None = None, profile: Profile = "auto") -> None:
        self._store = locate_store(store)
        self._profile: Profile = profile
        self._entry: Entry | None = None
        self._running: ExitStack | None = None
        self._started = datetime.now(timezone.utc)
        self._diagnosis: Diagnosis | None = None
        self._error: WhyidleError | None = None

    @property
    def diagnosis(self) -> Diagnosis | None:
        """Why the device idled; None before the end, and where nothing was watched.

        Raises:
            InputError: no training step was seen, so there is nothing to diagnose.
            OutputError: the recording could not be written.
            StoreError: the diagnosis could not be stored.
        """
        if self._error is not None:
            raise self._error
        return self._diagnosis

    @property
    def run_id(self) -> str | None:
        """The id of the run in the store; None where nothing was watched."""
        return self._entry.id if self._entry else None

    def start(self) -> None:
        """Begin to record.

        Raises:
            UsageError: another ``watch`` of this process has not stopped yet.
            StoreError: the run store cannot be written.
        """
        if self._running is not None or _active:
            raise UsageError("This process is being watched already.", hint="Use one watch.")
        if os.environ.get("WHYIDLE_RUN") or os.environ.get("WHYIDLE_DISABLE") == "1":
            return
        self._diagnosis = self._error = None
        self._entry = self._store.begin_run(_own_command())
        self._started = datetime.now(timezone.utc)
        recording = self._entry.path / RECORDING
        note_end(recording, self._entry.id, _own_command(), None)
        with ExitStack() as running:
            running.callback(_restore_environment, dict(os.environ))
            os.environ.update(
                command_environment(recording.resolve(), WatchLimits(profile=self._profile))
            )
            running.callback(_stop_probe)
            running.callback(_start_probe())
            running.enter_context(start_monitor(recording, os.getpid()))
            running.callback(_active.discard, self)
            _active.add(self)
            self._running = running.pop_all()

    def stop(self, status: int = 0) -> None:
        """End the recording, diagnose and store it. ``status`` is noted as the exit status of what
        was watched. What goes wrong here is raised by ``diagnosis``, not by the training."""
        if self._running is None or self._entry is None:
            return
        running, self._running = self._running, None
        running.close()
        ended = CommandEnd(
            status=status,
            started=self._started.isoformat(timespec="seconds"),
            duration_s=(datetime.now(timezone.utc) - self._started).total_seconds(),
        )
        recording = self._entry.path / RECORDING
        note_end(recording, self._entry.id, _own_command(), ended)
        try:
            document = diagnose_recording(recording, str(os.getpid()))
            self._store.complete_run(self._entry, document)
            self._diagnosis = Diagnosis.from_document(document)
        except WhyidleError as error:
            self._error = error

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.stop(INTERRUPTED if interrupted else int(kind is not None))


_active: set[Watch] = set()
"""the watch of this process, while there is one"""


def _own_command() -> list[str]:
    """What was typed to start this process; empty where it is a notebook or a prompt, which cannot
    be run again."""
    main = sys.modules.get("__main__")
    return list(sys.orig_argv) if getattr(main, "__file__", None) and not _in_ipython() else []


def _in_ipython() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def _restore_environment(before: dict[str, str]) -> None:
    for name in ("PYTHONPATH", "WHYIDLE_RUN", "WHYIDLE_PROFILE"):
        if name in before:
            os.environ[name] = before[name]
        else:
            os.environ.pop(name, None)


def _start_probe() -> Callable[[], object]:
    """Install the probe now where the framework is imported already, else upon its import; returns
    what ends the waiting for that."""
    spec = importlib.util.spec_from_file_location("_whyidle_boot", BOOT / "sitecustomize.py")
    if spec is None or spec.loader is None:
        raise UsageError("The probe is missing.", hint="Install whyidle again.")
    boot: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    detach: Callable[[], object] = boot.attach()
    return detach


def _stop_probe() -> None:
    probe = sys.modules.get(PROBE)
    if probe is not None:
        probe.uninstall()
