"""The side of a helper process that reads for another."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyidle.errors import InputError
from whyidle.readers._files.worker_ipc import Refusal, Request, receive_value, send_value

if TYPE_CHECKING:
    from whyidle.model.timeline import Timeline
    from whyidle.readers._events.text_ranges import RangeEvents, RangeReader

    Answer = Timeline | RangeEvents | Refusal | None


def serve_requests() -> None:
    """Read for another process until its pipe closes."""
    readers: dict[tuple[str, str | None], RangeReader] = {}
    answer_requests(
        lambda request: (
            _read_all(request) if request.range is None else _read_range(request, readers)
        )
    )


def answer_requests(answer: Callable[[Request], Any]) -> None:
    """Answer the requests on standard input until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    gc.disable()  # it would traverse millions of young events in vain
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            request = Request(*receive_value(requests))
        except EOFError:
            return
        try:
            value = answer(request)
        except InputError as error:
            value = error
        if isinstance(value, InputError):
            value = Refusal(type(value).__name__, value.what, value.why, value.hint)
        send_value(answers, value)


def _read_all(request: Request) -> Answer:
    from whyidle.readers import kineto  # noqa: PLC0415  # with numpy, not needed for ranges

    return kineto.load(Path(request.path), member=request.member)


def _read_range(request: Request, readers: dict[tuple[str, str | None], RangeReader]) -> Answer:
    from whyidle.readers._events.text_ranges import RangeReader  # noqa: PLC0415  # see _read_all

    file = request.path, request.member
    if file not in readers:
        readers[file] = RangeReader(Path(request.path), request.member)
    assert request.range is not None
    return readers[file].read_range(request.range)
