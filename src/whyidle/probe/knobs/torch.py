"""Sets global switches of PyTorch."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from typing import Any

from . import NO_FORM, KnobSession, do_nothing


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Set the number of operator threads and cuDNN's benchmark mode, and ignore the script's own
    settings."""
    import torch

    for knob, value in edits.items():
        if knob == "torch.num_threads" and not _in_worker():
            session.undo.append(functools.partial(torch.set_num_threads, torch.get_num_threads()))
            torch.set_num_threads(int(value))
            session.replace_function(
                torch, "set_num_threads", functools.partial(_outside_workers, session)
            )
            session.record_applied(knob)
        elif knob == "torch.cudnn_benchmark":
            _set_cudnn_search(session, bool(value))
            session.record_applied(knob)
        elif knob != "torch.num_threads":
            session.decline_knobs([knob], NO_FORM)


def _set_cudnn_search(session: KnobSession, value: bool) -> None:
    """Set whether cuDNN searches for the fastest algorithm of every convolution."""
    import torch

    home, kind = torch._C, type(torch.backends.cudnn)
    before, own = home._get_cudnn_benchmark(), vars(kind)["benchmark"]
    session.undo.append(functools.partial(home._set_cudnn_benchmark, before))
    home._set_cudnn_benchmark(value)
    session.replace_function(home, "_set_cudnn_benchmark", do_nothing)  # set_flags, flags
    put = functools.partial(setattr, kind, "benchmark")
    put(property(lambda _: value, lambda _self, _value: None))
    session.undo.append(functools.partial(put, own))


def _in_worker() -> bool:
    """Whether this is a loader worker or similar, whose threads PyTorch sets."""
    return multiprocessing.current_process().daemon


def _outside_workers(session: KnobSession, original: Callable[..., Any]) -> Callable[..., Any]:
    def set_num_threads(number: int) -> None:
        if session.is_child or _in_worker():  # a spawned worker is recognized only now
            original(number)

    return set_num_threads
