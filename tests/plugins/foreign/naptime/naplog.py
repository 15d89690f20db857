"""Reads nap logs: a line ``naps 1``, then for each step ``WORK NAP`` in nanoseconds."""

import numpy as np

from whyidle.errors import BrokenTraceError
from whyidle.model.timeline import (
    DeviceEvents,
    HostEvents,
    HostKind,
    MemorySamples,
    Source,
    Timeline,
)

SUFFIXES = (".naps",)
MAGIC = b"naps 1\n"
NAMES, ROLES = ("work", "nap", "step"), ("", "", "step_marked")
WORK, NAP, STEP = range(3)
KINDS = (HostKind.OP, HostKind.PYTHON, HostKind.ANNOTATION)


def sniff(head):
    return head.startswith(MAGIC)


def load(path, *, member=None, progress=None):
    rows, now = [], 0
    try:
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            work, nap = map(int, line.split())
            rows += [(now, now + work, WORK), (now + work, now + work + nap, NAP)]
            now += work + nap
            rows.append((now, now, STEP))
    except ValueError as error:
        raise BrokenTraceError(f"{path} is no nap log.", why=f"{error}.") from error
    start, end, name = np.array(rows, dtype=np.int64).T
    host = HostEvents.from_columns(start, end, name=name, kind=np.array(KINDS)[name], thread=0)
    return Timeline(
        names=NAMES,
        roles=ROLES,
        details=(),
        threads=("main",),
        host=host,
        device=DeviceEvents(*(np.empty(0, np.int64) for _ in DeviceEvents.__slots__)),
        memory=MemorySamples(*(np.empty(0, np.int64) for _ in MemorySamples.__slots__)),
        source=Source(path=str(path), format="nap log", events=len(rows)),
    )
