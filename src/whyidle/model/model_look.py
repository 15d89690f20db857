"""What ``--look model`` records of one process (``PID.look-model.json``). Times are seconds of one
forward and backward pass of a micro-batch."""

from __future__ import annotations

from msgspec import Struct


class SwapTimes(Struct, frozen=True):
    """Passes with and without a switch of the model. ``keeps``: results are the same apart from
    rounding; ``failed`` is why it could not be used."""

    kind: str = ""
    keeps: bool = False
    pairs: tuple[tuple[float, float], ...] = ()
    failed: str | None = None


class ModelLook(Struct, frozen=True):
    """The look. ``state`` is ``measured``, or why something is missing. ``calls`` has a row for
    each module that contains no others: its number, calls, seconds forward and backward, FLOPs
    forward, and bytes of its inputs, results and parameters."""

    state: str = ""
    device: str = ""
    batch: int | None = None
    modules: tuple[tuple[str, str], ...] = ()  # name and class
    passes: tuple[float, ...] = ()
    batches: tuple[tuple[float, float], ...] = ()  # multiples of it, and those of a pass
    calls: tuple[tuple[int, int, float, float, float, int], ...] = ()
    peak_flops: float | None = None
    peak_bytes: float | None = None
    swaps: tuple[SwapTimes, ...] = ()
    job_shares: tuple[float, ...] = ()  # of steps after the look: their passes, and the rest
