"""The probe, which runs inside the training process and its loader workers.

It uses only the standard library and the framework of the process. It is loaded by path under a
name of its own, so the training's Python needs no whyidle installed, and nothing here may import
the rest of whyidle.

``boot/sitecustomize.py`` waits for the import of a framework and then calls ``install``. The
framework's adapter (``frameworks/NAME/adapter.py``) wraps a few functions; each wrapper reports
when it was called, and for how long, to ``core/events.py``, which buffers that in memory. Another
thread samples the stacks of the training threads a few dozen times a second (``core/sampler.py``)
and writes everything to append-only files (``core/recorder.py``; layouts in ``wire.py``). A fault
in a hook removes that hook and is recorded (``core/fault_containment.py``); the job never sees it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from typing import Any


def install(framework: str, given: Collection[int] | None = None) -> None:
    """Start recording this process: called after the import of each framework, once. ``given`` are
    the cores that the process could use when it started."""
    folder = os.environ.get("WHYIDLE_RUN")
    if not folder or os.environ.get("WHYIDLE_DISABLE") == "1":
        return
    from .core import cpu_cores
    from .core.session import Session

    cpu_cores.remember_given_cores(given)

    if os.environ.get("WHYIDLE_PLAN") and not _sessions and not _plans:
        from . import knobs

        _plans.append(None)  # a knob may import another framework, which comes here again
        _plans[0] = knobs.install(folder)  # before the hooks, which must see the changed job
    adapter = importlib.import_module(f"{__name__}.frameworks.{framework}.adapter").Adapter()
    if _sessions:
        session = _sessions[0]
        session.add_framework(adapter)
    else:
        session = Session(folder, adapter)
        _sessions.append(session)
    if framework != "torch" and any(_plans):
        _plans[0].follow_steps(session.events)
    if os.environ.get("WHYIDLE_TRIAL"):
        adapter.install_trial(session.events, session.is_burst_awaited)


def uninstall() -> None:
    """End the recording of this process and remove every hook. The process continues, and may
    ``install`` again for another recording."""
    while _sessions:
        _sessions.pop().uninstall()


_sessions: list[Any] = []
_plans: list[Any] = []
"""the knobs of the process, once they have been applied: ``KnobSession``, or None without a plan"""


def step() -> None:
    """Mark the end of a step, for ``whyidle.step()`` in a watched process."""
    for session in _sessions:
        session.mark_step()
