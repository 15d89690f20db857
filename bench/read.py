"""How fast traces are read, against the floor: unpacking and typed decoding alone.

    python bench/read.py trace.json.gz [more ...] --repeat 7

For every file: median and spread of whyidle's reader, of the floor on the same bytes, their
ratio, and the process's peak memory (of all files so far). With ``--together`` all files are
read by ``load_all``, in several processes where that pays.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from isal import igzip

from whyidle.readers import kineto
from whyidle.readers._events.event_types import Event
from whyidle.readers._files.parallel_load import load_all
from whyidle.readers._files.recording_search import find_recordings


class Document(msgspec.Struct, gc=False):
    """A trace, held whole."""

    traceEvents: list[Event] = []  # noqa: N815  # the format's name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--no-floor", action="store_true", help="the floor holds the whole text")
    parser.add_argument("--together", action="store_true")
    options = parser.parse_args()
    if options.together:
        origins = find_recordings(*options.paths)
        size = sum(timeline.source.bytes for timeline in load_all(origins))
        report(f"{len(origins)} together", size, timed(lambda: load_all(origins), options.repeat))
        return
    for path in options.paths:
        compare(path, options.repeat, floor=not options.no_floor)


def compare(path: Path, repeat: int, *, floor: bool) -> None:
    """Our reader and the floor in turns, so that a busy machine slows both."""
    size = kineto.load(path).source.bytes
    ours, floors = [], []
    for _ in range(repeat):
        ours += timed(lambda: kineto.load(path), 1)
        floors += timed(lambda: decode_only(path), 1) if floor else []
    report(path.name, size, ours)
    if floor:
        report("  floor", size, floors)
        ratio = statistics.median(low / our for low, our in zip(floors, ours, strict=True))
        print(f"  reads at {ratio:.2f} of the floor (median of pairs)")


def decode_only(path: Path) -> None:
    opened = igzip.open(path) if path.suffix == ".gz" else path.open("rb")
    with opened as file:
        text = file.read()
    kind = list[Event] if text.lstrip()[:1] == b"[" else Document
    gc.disable()
    try:
        msgspec.json.decode(text, type=kind)
    finally:
        gc.enable()


def timed(call: Callable[[], object], repeat: int) -> list[float]:
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def report(name: str, size: int, seconds: list[float]) -> None:
    median = statistics.median(seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name[:48]:48} {size / 1e6:7.0f} MB  {median:7.3f} s  "
        f"({min(seconds):.3f} to {max(seconds):.3f})  {size / 1e6 / median:5.0f} MB/s  "
        f"peak {peak:.0f} MiB"
    )


if __name__ == "__main__":
    main()
