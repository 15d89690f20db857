"""What truly happened on the emulated devices of a process, as a document.

``WHYIDLE_EMULATED_TRUTH`` names a file that it is written to when the process ends; a folder, and
it is ``PID.json`` in it. Without it a long run's first intervals are forgotten. See
docs/emulated.md for the keys.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
from pathlib import Path
from typing import Any

from emulator.device import devices
from emulator.device.clock import now
from emulator.device.device import Device
from emulator.device.record import WANTED, union
from emulator.device.stream import COMMUNICATION, COMPUTE

SCHEMA = "whyidle/emulated/1"


def _device(device: Device, moment: int) -> dict[str, Any]:
    with device.lock:
        busy = device.record.until(moment)
        blocked = list(device.record.blocked)
    every = [each for some in busy.values() for each in some]
    kernels = (COMPUTE, COMMUNICATION)
    at_work = union([(b.begin, b.end) for b in every if b.cost.kind in kernels])
    return {
        "index": device.index,
        "begun": device.begun,
        "streams": [
            {
                "number": number,
                "busy": [[b.begin, b.end, b.cost.kind, b.items, b.cost.bytes_] for b in some],
            }
            for number, some in busy.items()
        ],
        "busy": at_work,
        "gaps": [(first[1], second[0]) for first, second in itertools.pairwise(at_work)],
        "host": [[b.begin, b.end, b.why, b.thread] for b in blocked],
        "launches": device.record.launches,
        "memory": device.memory.stats(),
    }


def truth() -> dict[str, Any]:
    """Of this process so far. Times are ``time.perf_counter_ns`` of its machine."""
    moment = now()
    return {
        "schema": SCHEMA,
        "pid": os.getpid(),
        "clock": "perf_counter_ns",
        "now": moment,
        "devices": [_device(each, moment) for each in devices.started()],
    }


def write_truth(path: str | os.PathLike[str]) -> None:
    """Write it to a file, or as ``PID.json`` into a folder."""
    target = Path(path)
    if target.is_dir():
        target = target / f"{os.getpid()}.json"
    target.write_text(json.dumps(truth()), encoding="utf-8")


def _at_exit() -> None:
    path = os.environ.get(WANTED)
    if path and devices.started() and not devices.bad_fork():
        write_truth(path)


def install() -> None:
    """Write it at the end, if a file is named."""
    atexit.register(_at_exit)
