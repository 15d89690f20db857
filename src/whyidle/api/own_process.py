"""Watches the current process: a notebook or a script."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path, PurePath
from types import ModuleType, TracebackType
from typing import Literal

from whyidle.api.documents import Diagnosis
from whyidle.errors import INTERRUPTED, UsageError, WhyidleError
from whyidle.record.launcher import BOOT, CommandEnd, WatchLimits, command_environment
from whyidle.record.recording_diagnosis import diagnose_recording, note_end, start_monitor
from whyidle.store.entry import RECORDING, Entry
from whyidle.store.location import locate_store

Profile = Literal["auto", "off", "look"]
PROBE = "_whyidle_probe"
"""module name of the probe"""


def watch(store: str | Path | None = None, profile: Profile = "auto") -> Watch:
    """Watch the current process during a ``with`` block, which contains the loop and the calls
    that make its iterators.

    Covers this process and the loader workers that it starts in the block; use ``whyidle run`` for
    several ranks. Under ``whyidle run``, or with ``WHYIDLE_DISABLE=1``, the block runs unwatched
    and ``w.diagnosis`` is None.

    Args:
        store: the folder of the run store; the default is ``$WHYIDLE_HOME``, or ``.whyidle`` in the
            working directory.
        profile: when to record three steps with the framework's profiler: ``auto`` when step times
            are steady, ``look`` immediately, ``off`` never.

    Examples:
        >>> with whyidle.watch() as w:
        ...     train()
        >>> w.diagnosis
    """
    return Watch(store, profile)


class Watch:
    """One recording of the current process. ``start`` and ``stop`` are for callers without a
    ``with`` block, such as callbacks."""

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
        """Why the device idled; None before the end, and if nothing was watched.

        Raises:
            InputError: there was no training step.
            OutputError: the recording could not be written.
            StoreError: the diagnosis could not be stored.
        """
        if self._error is not None:
            raise self._error
        return self._diagnosis

    @property
    def run_id(self) -> str | None:
        """The id of the stored run; None if nothing was watched."""
        return self._entry.id if self._entry else None

    def start(self) -> None:
        """Start the recording.

        Raises:
            UsageError: another ``watch`` of this process is active.
            StoreError: the run store cannot be written.
        """
        if self._running is not None or _active:
            raise UsageError("This process is already watched.", hint="Stop the other watch first.")
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
        """Stop the recording, diagnose and store it. ``status`` is recorded as the exit status.
        Errors are raised by ``diagnosis``, not here."""
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
            document = diagnose_recording(recording, str(os.getpid()), _notebook_name())
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
"""the active watch of this process"""


def _own_command() -> list[str]:
    """The command of this process; empty for a notebook or a prompt."""
    main = sys.modules.get("__main__")
    ipython = sys.modules.get("IPython")
    prompt = ipython is not None and ipython.get_ipython() is not None
    return list(sys.orig_argv) if getattr(main, "__file__", None) and not prompt else []


def _notebook_name() -> str:
    """The file of the notebook where its server tells it, as Jupyter does."""
    return PurePath(os.environ.get("JPY_SESSION_NAME", "")).name or "notebook"


def _restore_environment(before: dict[str, str]) -> None:
    for name in ("PYTHONPATH", "WHYIDLE_RUN", "WHYIDLE_PROFILE"):
        if name in before:
            os.environ[name] = before[name]
        else:
            os.environ.pop(name, None)


def _start_probe() -> Callable[[], object]:
    """Install the probe now or on the import of the framework; return a function that cancels."""
    spec = importlib.util.spec_from_file_location("_whyidle_boot", BOOT / "sitecustomize.py")
    if spec is None or spec.loader is None:
        raise UsageError("The probe is missing.", hint="Reinstall whyidle.")
    boot: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    detach: Callable[[], object] = boot.attach()
    return detach


def _stop_probe() -> None:
    probe = sys.modules.get(PROBE)
    if probe is not None:
        probe.uninstall()
