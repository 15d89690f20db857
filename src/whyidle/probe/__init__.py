"""The guest: what runs inside the training process and its loader workers.

Standard library only, plus the framework it is in. It is loaded by path under a name of its own,
so the training's Python needs no whyidle installed, and nothing here may import the rest of
whyidle.

``boot/sitecustomize.py`` waits for a framework to be imported and then calls ``install``. A
handful of call sites are wrapped; each records when it was called, and for how long, in memory.
Another thread samples what the training threads are doing a few dozen times a second, and writes
everything to append-only files (``recorder``). A fault in a wrapper takes that wrapper off and is
counted (``guard``); the job never sees it.
"""

from __future__ import annotations

import atexit
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
    from . import cores, loop, recorder

    cores.note(given)

    if os.environ.get("WHYIDLE_PLAN"):
        from . import knobs

        knobs.install(folder)  # before the hooks, which are to see what has become of the job
    _loops.append(loop.install(recorder.Recorder(folder)))
    if os.environ.get("WHYIDLE_TRIAL"):
        from . import trial

        trial.install(folder, _loops[-1])


def uninstall() -> None:
    """End the recording of this process and take every hook off; the process goes on, and may
    ``install`` again for another recording."""
    from . import guard

    while _loops:
        loop = _loops.pop()
        atexit.unregister(loop.finish)
        loop.finish(dying=False)
        while loop.undo:
            guard.contained(loop.recorder.folder, *loop.undo.popitem())


_loops: list[Any] = []


def step() -> None:
    """A step ends here: ``whyidle.step()`` of a watched process."""
    for one in _loops:
        from . import hot

        hot.step(one)
