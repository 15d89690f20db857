"""Switches of PyTorch as a whole."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from typing import Any

from . import NO_FORM, KnobSession, do_nothing


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Set threads of operators, whether deterministic algorithms are asked for or the fastest
    convolutions searched for, and let no line of the script set them back."""
    import torch

    for knob, value in edits.items():
        if knob == "torch.num_threads" and not _in_worker():
            hand.undo.append(functools.partial(torch.set_num_threads, torch.get_num_threads()))
            torch.set_num_threads(int(value))
            hand.replace_function(
                torch, "set_num_threads", functools.partial(_outside_workers, hand)
            )
            hand.record_applied(knob)
        elif knob == "torch.cudnn_benchmark":
            _set_cudnn_search(hand, bool(value))
            hand.record_applied(knob)
        elif knob == "torch.deterministic" and not value:
            hand.replace_function(
                torch, "use_deterministic_algorithms", functools.partial(_never_on, hand)
            )
        elif knob != "torch.num_threads":
            hand.decline_knobs([knob], NO_FORM)


def _set_cudnn_search(hand: KnobSession, value: bool) -> None:
    """Whether cuDNN searches for the fastest algorithm of every convolution."""
    import torch

    home, kind = torch._C, type(torch.backends.cudnn)
    before, own = home._get_cudnn_benchmark(), vars(kind)["benchmark"]
    hand.undo.append(functools.partial(home._set_cudnn_benchmark, before))
    home._set_cudnn_benchmark(value)
    hand.replace_function(home, "_set_cudnn_benchmark", do_nothing)  # set_flags, flags
    put = functools.partial(setattr, kind, "benchmark")
    put(property(lambda _: value, lambda _self, _value: None))
    hand.undo.append(functools.partial(put, own))


def _in_worker() -> bool:
    """Whether this is a loader's worker or the like: PyTorch sets its threads."""
    return multiprocessing.current_process().daemon


def _outside_workers(hand: KnobSession, original: Callable[..., Any]) -> Callable[..., Any]:
    def set_num_threads(number: int) -> None:
        if hand.is_child or _in_worker():  # one that was not forked is known as one only by now
            original(number)

    return set_num_threads


def _never_on(hand: KnobSession, original: Callable[..., Any]) -> Callable[..., Any]:
    def use_deterministic_algorithms(mode: bool, **kwargs: Any) -> None:
        if mode:
            hand.record_applied("torch.deterministic")
        original(False, **kwargs)

    return use_deterministic_algorithms
