"""Records collectives between ranks, and the rank of each process.

Nothing is wrapped before the job itself calls ``init_process_group``. Then collectives called from
Python are timed from their call to the end of their ``wait``; for those of DistributedDataParallel
see ``gradient_exchange``.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core import fault_containment
from ...core.events import Events
from ...core.recorder import ANNOTATION, clock_ns
from ...core.wrapped_functions import set_attribute
from .gradient_exchange import GradientExchange
from .tracing import HIDING, skip_code

LAUNCH = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
)
"""variables that launchers set in each process"""

COLLECTIVES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "all_gather_single": "all_gather",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
}
"""method of a process group -> name of the collective"""

WAIT = "## work.wait() ##"
FLIGHT = 0
"""thread number of collectives that run while the host continues"""
thread = threading.get_ident


class ProcessRank:
    """The rank of this process, its backend and its pending collectives."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.backend = "gloo"
        self.pending: dict[int, tuple[int, str]] = {}

    def write_rank(self, **fields: Any) -> None:
        """Write the rank next to the recording, also for ranks that never train."""
        environ = os.environ
        document = {"pid": os.getpid(), "ppid": os.getppid(), "host": socket.gethostname()}
        document |= {
            "time": clock_ns(),
            "launch": {k: environ[k] for k in LAUNCH if k in environ},
            **fields,
        }
        place = os.path.join(self.events.recorder.folder, f"{os.getpid()}.rank.json")
        try:
            with open(place + "~", "w", encoding="utf-8") as file:
                json.dump(document, file)
            os.replace(place + "~", place)
        except OSError as error:
            fault_containment.note_fault(self.events.recorder.folder, "ranks", error)


def install_collective_hooks(events: Events) -> None:
    """Wait for this process to join a process group."""
    import torch

    if not torch.distributed.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel

    ranks = ProcessRank(events)
    if "RANK" in os.environ:
        ranks.write_rank(
            rank=_environment_number("RANK"), world_size=_environment_number("WORLD_SIZE")
        )
    group_made = "init_process_group"  # replaced where it is defined, too
    events.patch_call(
        "ranks", torch.distributed, group_made, lambda *_: _after_group_created(ranks)
    )
    exchange = GradientExchange(events, lambda: ranks.backend)
    made = exchange.model_wrapped
    events.patch_call("ddp", DistributedDataParallel, "__init__", lambda ddp, _: made(ddp))


def _environment_number(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def _after_group_created(ranks: ProcessRank) -> None:
    """Record collectives once a process group was created."""
    import torch.distributed as dist

    if not dist.is_initialized() or "collectives" in ranks.events.undo:
        return
    ranks.backend = str(dist.get_backend()).split(":")[0]
    world = dist.get_world_size()
    ranks.write_rank(rank=dist.get_rank(), world_size=world, backend=ranks.backend)
    if world > 1:
        _wrap_collectives(ranks)


def _wrap_collectives(ranks: ProcessRank) -> None:
    from torch._C._distributed_c10d import ProcessGroup, Work

    undoes: list[Callable[[], None]] = []
    for method, kind in COLLECTIVES.items():
        original = getattr(ProcessGroup, method, None)
        if original is not None:
            call = _wrap_method(ranks, original, method, f"{ranks.backend}:{kind}")
            undoes.append(set_attribute(ProcessGroup, method, call))
    original = Work.wait

    @functools.wraps(original)
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        begin = clock_ns()
        try:
            return original(work, *args, **kwargs)
        finally:
            ranks.events.run_contained("collectives", _note_wait, ranks, work, begin)

    undoes.append(set_attribute(Work, "wait", wait))
    ranks.events.undo["collectives"] = lambda: [undo() for undo in undoes]


def _wrap_method(ranks: ProcessRank, original: Any, method: str, name: str) -> Callable[..., Any]:
    """Wrap a method. For a process group written in Python, C++ looks for an override and finds
    this wrapper. pybind11 does not treat it as an override if the frame that calls C++ has the
    method's name and the group as its first argument; hence the name of the code object."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin = clock_ns()
        work = original(self, *args, **kwargs)
        ranks.events.run_contained("collectives", _note_call, ranks, work, name, begin)
        return work

    named: Any = call
    named.__code__ = named.__code__.replace(co_name=method)
    hide = functools.partial(skip_code, named.__code__)
    fault_containment.run_contained(ranks.events.recorder.folder, HIDING, hide)
    return call


def _note_call(ranks: ProcessRank, work: Any, name: str, begin: int) -> None:
    if work is None:  # completed already
        ranks.events.add_span(wire.COLLECTIVE, name, ANNOTATION, begin)
        return
    if len(ranks.pending) >= 512:  # never waited for
        ranks.pending.clear()
    ranks.pending[id(work)] = begin, name


def _note_wait(ranks: ProcessRank, work: Any, begin: int) -> None:
    called, name = ranks.pending.pop(id(work), (0, ""))
    recorder = ranks.events.recorder
    ranks.events.add_span(wire.COLLECTIVE_WAIT, WAIT, ANNOTATION, begin)
    if called:
        number = recorder.name_number(name, wire.COLLECTIVE)
        recorder.add((called, clock_ns(), FLIGHT, number, ANNOTATION))
