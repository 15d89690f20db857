"""The declaration of a suspicion: what a look from outside makes likely.

A suspicion is a pure function from a ``JobView`` to a ``Suspected`` or ``None``, one a file of
``whyidle.suspicions``. It says *likely*, never more: only a recording of the job proves a cause.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from whyidle.model.documents.watch_document import GpuState


class JobView(Struct, frozen=True, kw_only=True):
    """A job as seen from outside, over the last ``window_s``. None: not measured."""

    window_s: float
    age_s: float | None = None
    gpu_busy: float | None = None  # mean over its GPUs
    gpu_busy_max: float | None = None  # of any GPU at any look
    gpu_memory_bytes: int | None = None
    power_ratio: float | None = None  # power drawn, of the limit
    bus_bytes_per_s: float | None = None  # over PCIe and NVLink, both directions
    held_by_heat: float | None = None  # share of the window
    held_by_power: float | None = None
    hardware_slowdown: bool | None = None  # hardware slowdown or power brake in every look
    power_limit_ratio: float | None = None  # limit in force, of the card's default
    cores_used: float | None = None
    cores_allowed: float | None = None
    busiest_thread: float | None = None  # CPU time of its busiest thread per second
    queued: float | None = None  # share of time that a first thread waited for a core, the worst
    threads_ready: float | None = None  # mean number of its processes that run or wait for a core
    blocked: float | None = None  # share of looks in which a process waited uninterruptibly
    io_wait: float | None = None  # time blocked on storage per second, the worst process
    throttled: float | None = None  # share of scheduling periods in which the quota ran out
    pressure_io: float | None = None
    faults_per_s: float | None = None  # page faults that waited for storage
    swap_bytes: int | None = None
    workers: int | None = None  # processes below those that hold its GPUs, all over the window
    workers_busy: int | None = None  # of them, those that use 0.9 of a core or more
    workers_idle: int | None = None  # of them, those that use less than 0.02 of a core
    waits_for: str | None = None
    """what the first threads of its GPUs' processes wait for mostly, or else its workers: a word of
    ``machine.sources._kernel_waits``"""
    waits_share: float | None = None  # of the looks, in which they wait for that
    since_step_s: float | None = None  # time since the last step of a watched job


class Suspected(Struct, frozen=True, kw_only=True):
    """What is likely, in words that begin with "likely", with the figures."""

    text: str
    proof: str  # what would prove it


Test = Callable[[JobView], Suspected | None]
FIELDS = frozenset(JobView.__struct_fields__)


class Suspicion(Struct, frozen=True):
    """A declared suspicion. ``state`` is the state of a job that it fits best; ``cause`` the cause
    in the catalogue that a recording would prove, if one."""

    id: str
    title: str
    state: GpuState
    needs: tuple[str, ...]
    least_s: float  # shortest window that it judges
    cause: str | None
    test: Test

    def judge(self, view: JobView) -> Suspected | None:
        """What is suspected; None also where something that it needs was not measured."""
        if view.window_s < self.least_s or any(getattr(view, one) is None for one in self.needs):
            return None
        return self.test(view)


def suspicion(
    title: str,
    *,
    state: GpuState,
    needs: tuple[str, ...],
    least_s: float = 0.0,
    cause: str | None = None,
) -> Callable[[Test], Suspicion]:
    """Declare a suspicion; its id is the name of its file.

    Raises:
        ValueError: a needed field does not exist.
    """
    if unknown := set(needs) - FIELDS:
        raise ValueError(f"unknown fields {sorted(unknown)}; of {', '.join(sorted(FIELDS))}")

    def declare(test: Test) -> Suspicion:
        name = test.__module__.rpartition(".")[2].replace("_", "-")
        return Suspicion(name, title, state, needs, least_s, cause, test)

    return declare
