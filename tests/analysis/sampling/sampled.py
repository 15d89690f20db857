"""Recorded calls as the analysis of stack samples takes them."""

import numpy as np

from whyidle.model.timeline import HostEvents


def host_calls(start, end, thread):
    """Calls of the first name, on one thread, ns."""
    start, end = (np.asarray(edge, np.int64) for edge in (start, end))
    return HostEvents.from_columns(start, end, kind=0, name=0, thread=thread)
