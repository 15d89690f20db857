"""Sets ``naps.length_ratio`` in the training process.

It is loaded there by its path, so that neither this package nor whyidle need be importable in the
job: it imports the standard library, and could import the framework.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyidle.probe.knobs import KnobSession


def apply(session: KnobSession, settings: dict[str, float]) -> None:
    """Shorten ``time.sleep``. ``settings`` are those of the knobs that this file implements."""
    ratio = settings["naps.length_ratio"]

    def make(original):
        def sleep(seconds):
            session.record_applied(*settings)
            return original(ratio * seconds)

        return sleep

    session.wait_for(settings, "the script never slept")
    session.replace_function(time, "sleep", make)
