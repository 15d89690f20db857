"""Recorded calls as the analysis of stack samples takes them."""

import numpy as np

from whyidle.model.timeline import HostEvents


def host_calls(start, end, thread):
    """Calls of the first name, on one thread, ns."""
    none = np.zeros(len(start), np.int64)
    return HostEvents(
        start=np.asarray(start, np.int64),
        end=np.asarray(end, np.int64),
        kind=none.astype(np.uint8),
        name=none.astype(np.int32),
        thread=(none + thread).astype(np.int16),
        corr=none - 1,
        detail=(none - 1).astype(np.int32),
    )
