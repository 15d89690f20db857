"""Sets ``naps.length_ratio`` in the training process; loaded there by its path, so that neither
this package nor whyidle need be importable in the job."""

import time


def apply_knobs(session, settings):
    """Shorten ``time.sleep``; ``session`` is whyidle's, ``settings`` are the knobs of this file."""
    ratio = settings["naps.length_ratio"]

    def make(original):
        def sleep(seconds):
            session.took(*settings)
            return original(ratio * seconds)

        return sleep

    session.waits(settings, "the script never slept")
    session.replace(time, "sleep", make)
