"""Reading of several recordings, in processes of their own where that pays."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TypeVar

from whyidle.errors import BrokenTraceError, InputError
from whyidle.model.plugin import Importer
from whyidle.model.timeline import Timeline
from whyidle.readers import kineto
from whyidle.readers._files.recording_search import Origin, find_importer, own_importers

WORTH_BYTES = 50 << 20
"""text that one process reads in about the time in which another starts"""
PACKED = 15
"""times that packing shrinks a trace, at least about half of what is usual"""
FAULTS: tuple[type[Exception], ...] = (Exception,)
"""any exception of another package's importer"""
Progress = Callable[[int, int], None]
Read = Timeline | InputError
T = TypeVar("T")


def load_all(
    origins: Sequence[Origin],
    progress: Progress | None = None,
    importers: Sequence[Importer] = (),
    processes: int | None = None,
) -> list[Timeline]:
    """Read recordings in the given order, in as many ``processes`` as pay if None. Unreadable ones
    are left out and noted in the first, unless none can be read. ``importers`` of other packages
    run in this process; ``progress`` is called with (bytes read, total bytes).

    Raises:
        InputError: none could be read; the error of the first.
    """
    chosen = [find_importer(*origin, importers) for origin in origins]
    own = [origin for origin, importer in zip(origins, chosen, strict=True) if importer is None]
    count = _processes_that_pay(own) if processes is None else processes
    apart = map_apart(_load_own, own, count) if count > 1 else None
    sizes = [_file_size(origin) for origin in origins]
    results: list[Read] = []
    for number, (origin, importer) in enumerate(zip(origins, chosen, strict=True)):
        before, total = sum(sizes[:number]), sum(sizes)
        if importer is None and apart is not None:
            results.append(next(apart))
        else:
            results.append(_load_here(origin, importer, _shift_progress(progress, before, total)))
        if progress is not None:
            progress(before + sizes[number], total)
    return _gather_timelines(results)


def map_apart(
    function: Callable[[Origin], T], origins: Sequence[Origin], processes: int
) -> Iterator[T]:
    """Yield ``function(origin)`` of each in order, computed in other ``processes``. What a process
    that died leaves undone is computed here, and everything where the main module is a script: a
    new process would run it again."""
    done = 0
    if min(processes, len(origins)) > 1 and _main_is_safe():
        try:
            with ProcessPoolExecutor(
                min(processes, len(origins)), get_context("spawn"), _begin_process
            ) as pool:
                for result in pool.map(function, origins):
                    yield result
                    done += 1
        except (BrokenExecutor, OSError):
            pass
    for origin in origins[done:]:
        yield function(origin)


def usable_cores() -> int:
    """Return on how many cores this process may run."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def note_failures(timeline: Timeline, failed: Sequence[InputError]) -> Timeline:
    """Return a recording with a note on each that was not read."""
    source = timeline.source
    notes = [f"not read: {error.what} {error.why}".strip() for error in failed]
    return replace(timeline, source=replace(source, notes=(*source.notes, *notes)))


def _main_is_safe() -> bool:
    """Whether a new process does not run the main module, or it is whyidle's command."""
    main = sys.modules["__main__"]
    file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    name = getattr(spec, "name", "")
    return name.endswith("__main__") or (not name and (not file or Path(file).stem == "whyidle"))


def _begin_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _load_own(origin: Origin) -> Read:
    return _load_here(origin, None, None)


def _load_here(origin: Origin, importer: Importer | None, progress: Progress | None) -> Read:
    path, member = origin
    try:
        return (importer or kineto).load(path, member=member, progress=progress)
    except InputError as error:
        return error
    except FAULTS as error:
        if importer is None or importer in own_importers():
            raise
        return BrokenTraceError(
            f"The plug-in {importer.__name__} failed to read {path}.",
            why=f"{type(error).__name__}: {error}.",
            hint="Update the package, or report it to its authors.",
        )


def _shift_progress(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Progress of one file as that of all."""
    if progress is None:
        return None
    return lambda done, size: progress(before + min(done, size), total)


def _file_size(origin: Origin) -> int:
    try:
        return origin[0].stat().st_size
    except OSError:
        return 0


def _processes_that_pay(origins: Sequence[Origin]) -> int:
    packed = [path.suffix.lower() in {".gz", ".zip"} for path, _ in origins]
    texts = [
        _file_size(origin) * (PACKED if is_packed else 1)
        for origin, is_packed in zip(origins, packed, strict=True)
    ]
    others = sum(texts) - max(texts, default=0)
    return usable_cores() if others >= WORTH_BYTES else 1


def _gather_timelines(results: Sequence[Read]) -> list[Timeline]:
    read = [result for result in results if isinstance(result, Timeline)]
    good = [replace(one, others=()) for timeline in read for one in (timeline, *timeline.others)]
    failed = [result for result in results if isinstance(result, InputError)]
    if failed and not good:
        raise failed[0]
    if failed:
        good[0] = note_failures(good[0], failed)
    return good
