"""What a launcher tells those who watch its job."""

from __future__ import annotations

import time

import msgspec

from whyidle.model.documents.watch_document import GpuState, Reason, WatchedSteps


class JobNews(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a recorded job. ``last_step_ns`` is of ``time.perf_counter_ns``."""

    steps: WatchedSteps
    last_step_ns: int | None
    state: GpuState | None
    reason: Reason | None


def elapsed_s(since_ns: int | None) -> float | None:
    """Time since a moment of ``time.perf_counter_ns``, which all processes of a machine share."""
    return None if since_ns is None else max(0.0, (time.perf_counter_ns() - since_ns) / 1e9)
