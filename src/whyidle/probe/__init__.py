"""The guest: what runs inside the training process and its loader workers.

Standard library only, plus the framework it is in. It is loaded by path under a name of its own,
so the training's Python needs no whyidle installed, and nothing here may import the rest of
whyidle.

``boot/sitecustomize.py`` waits for a framework to be imported and then calls ``install``. The
framework's adapter (``frameworks/NAME/adapter.py``) wraps a few call sites; each reports when
it was called, and for how long, to ``core/events.py``, which keeps that in memory. Another thread
samples what the training threads are doing a few dozen times a second (``core/sampler.py``), and
writes everything to append-only files (``core/recorder.py``; their layout is ``wire.py``). A fault
in a hook takes that hook off and is counted (``core/containment.py``); the job never sees it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from typing import Any

FRAMEWORKS = ("torch",)


def install(framework: str, given: Collection[int] | None = None) -> None:
    """Start to record in this process: called once, after the framework's import. ``given`` are the
    cores that the process might use when it started."""
    folder = os.environ.get("WHYIDLE_RUN")
    if not folder or os.environ.get("WHYIDLE_DISABLE") == "1" or framework not in FRAMEWORKS:
        return
    from .core import cpu_cores
    from .core.session import Session

    cpu_cores.remember_given_cores(given)

    if os.environ.get("WHYIDLE_PLAN"):
        from . import knobs

        knobs.install(folder)  # before the hooks, which are to see what has become of the job
    adapter = importlib.import_module(f"{__name__}.frameworks.{framework}.adapter").Adapter()
    session = Session(folder, adapter)
    _sessions.append(session)
    if os.environ.get("WHYIDLE_TRIAL"):
        adapter.install_trial(session.events, session.is_burst_awaited)


def uninstall() -> None:
    """End the recording of this process and take every hook off; the process goes on, and may
    ``install`` again for another recording."""
    while _sessions:
        _sessions.pop().uninstall()


_sessions: list[Any] = []


def step() -> None:
    """A step ends here: ``whyidle.step()`` of a watched process."""
    for session in _sessions:
        session.mark_step()
