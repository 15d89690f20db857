"""Telemetry from outside the training process, one source per file.

A source is a file of this folder that imports nothing of ours but ``whyidle.model`` (and the
errors). It declares

``SIGNALS``: tuple of ``Meter``
    every signal that it may give: id, unit, gauge or counter, meaning, and the cost of its read in
    microseconds of CPU time, measured on the machine that the source's docstring names (None: no
    such device was at hand).
``PERIOD_S``
    seconds between reads that its cost and the rate at which its values change suggest.
``probe(target=Target()) -> Available | Absent``
    whether it can be read, which signals are missing, why, and how to get them. Cheap, leaves
    nothing open; ``whyidle doctor`` shows it.
``open(target) -> Reader``
    begins to read. Raises InputError, with the reason of ``probe``, where it cannot.

and a ``Reader`` has ``facts`` (what does not change: names, identities), ``missing`` (as above, for
this target), ``read() -> {"signal@subject": int | float | None}`` and ``close()``.

Promises, which ``tests/machine/sources`` check: a field that fails is None and never takes the
others with it; sentinels (all ones, 9.2e18, -1, NaN, "[N/A]") are None; every key's signal is
in ``SIGNALS``; counters do not fall; ``read`` does not raise for what happens on a machine
(processes that end, permissions, a device that is lost); ``close`` gives back every descriptor.

Files that begin with an underscore are parts. ``_gpu_signals`` holds the signals that every
source of GPU numbers shares.
"""
