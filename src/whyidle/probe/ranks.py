"""Collectives between ranks, and what each process says of its place in the job.

Nothing is installed before the job itself calls ``init_process_group``. Then collectives called
from Python are timed from their call to the end of their ``wait``. DistributedDataParallel's own
exchange of gradients runs in C++ inside the backward pass and cannot be called around, but on a CPU
the training thread sleeps while it waits for it: the part of a backward pass in which the thread
neither ran nor queued for a processor is that waiting, and lies at its end. Gradients are not
touched.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import guard
from .recorder import ANNOTATION, now

if TYPE_CHECKING:
    from .loop import Loop

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
"""what launchers tell each process about its place"""

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
"""methods of a process group, and what to call them"""

WAIT = "## work.wait() ##"
WALK = "reducer::search_unused_parameters"
FLIGHT = 0
"""number of the thread that stands for collectives on their way while the host goes on"""
MOST_PENDING = 512
TOLD_EVERY = 64
"""backward passes between two looks at what DistributedDataParallel says of itself"""
LEAST_WAIT_NS = 1_000
thread = threading.get_ident


class Ranks:
    """What this process knows of its job."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.backend = "gloo"
        self.pending: dict[int, tuple[int, str]] = {}
        self.models: list[weakref.ref[Any]] = []
        self.synced = self.unsynced = 0
        self.queue, self.queue_of = -1, 0
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.models.clear()
        self.queue, self.queue_of = -1, 0

    def note(self, **found: Any) -> None:
        """Write this process's place beside its recording, for ranks that never come to train."""
        environ = os.environ
        told = {"pid": os.getpid(), "ppid": os.getppid(), "host": socket.gethostname()}
        told |= {"time": now(), "launch": {k: environ[k] for k in LAUNCH if k in environ}, **found}
        place = os.path.join(self.loop.recorder.folder, f"{os.getpid()}.rank.json")
        try:
            with open(place + "~", "w", encoding="utf-8") as file:
                json.dump(told, file)
            os.replace(place + "~", place)
        except OSError as error:
            guard.note(self.loop.recorder.folder, "ranks", error)


def install(loop: Loop) -> None:
    """Watch for this process to join a job of several."""
    import torch

    if not torch.distributed.is_available():
        return
    import torch.distributed.distributed_c10d as c10d
    from torch.nn.parallel import DistributedDataParallel

    ranks = Ranks(loop)
    if "RANK" in os.environ:
        ranks.note(rank=_number("RANK"), world_size=_number("WORLD_SIZE"))
    loop.wrap("ranks", c10d, "init_process_group", lambda *_: _joined(ranks))
    loop.wrap("ddp", DistributedDataParallel, "__init__", lambda ddp, _: _made(ranks, ddp))


def _number(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def _joined(ranks: Ranks) -> None:
    """A process group was made: its collectives are recorded from now on."""
    import torch.distributed as dist

    if not dist.is_initialized() or "collectives" in ranks.loop.undo:
        return
    ranks.backend = str(dist.get_backend()).split(":")[0]
    world = dist.get_world_size()
    ranks.note(rank=dist.get_rank(), world_size=world, backend=ranks.backend)
    if world > 1:
        _collectives(ranks)


def _collectives(ranks: Ranks) -> None:
    from torch._C._distributed_c10d import ProcessGroup, Work

    owners: list[tuple[Any, str, Any]] = []
    for method, kind in COLLECTIVES.items():
        original = getattr(ProcessGroup, method, None)
        if original is not None:
            name = f"{ranks.backend}:{kind}"
            owners.append((ProcessGroup, method, original))
            setattr(ProcessGroup, method, _issued(ranks, original, name))
    original = Work.wait
    owners.append((Work, "wait", original))

    @functools.wraps(original)
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        begin = now()
        try:
            return original(work, *args, **kwargs)
        finally:
            _contained(ranks, "collectives", _waited, ranks, work, begin)

    Work.wait = wait  # type: ignore[assignment,method-assign]

    def undo() -> None:
        for owner, method, original in owners:
            setattr(owner, method, original)

    ranks.loop.undo["collectives"] = undo


def _issued(ranks: Ranks, original: Any, name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        begin = now()
        work = original(*args, **kwargs)
        _contained(ranks, "collectives", _called, ranks, work, name, begin)
        return work

    return call


def _contained(ranks: Ranks, where: str, record: Callable[..., None], *values: Any) -> None:
    try:
        record(*values)
    except (RecursionError, MemoryError):
        pass  # the job is at its limit: that is no time to do anything about it
    except Exception as error:  # contained, counted, and the wrapper taken off
        ranks.loop.fault(where, error)


def _called(ranks: Ranks, work: Any, name: str, begin: int) -> None:
    if work is None:  # it has waited already
        ranks.loop.span(name, ANNOTATION, begin)
        return
    if len(ranks.pending) >= MOST_PENDING:  # never waited for
        ranks.pending.clear()
    ranks.pending[id(work)] = begin, name


def _waited(ranks: Ranks, work: Any, begin: int) -> None:
    called, name = ranks.pending.pop(id(work), (0, ""))
    recorder = ranks.loop.recorder
    ranks.loop.span(WAIT, ANNOTATION, begin)
    if called:
        recorder.add((called, now(), FLIGHT, recorder.number(name), ANNOTATION))


# -- DistributedDataParallel --------------------------------------------------------------------


def _made(ranks: Ranks, ddp: Any) -> None:
    """A model was wrapped: its exchanges are recorded from now on."""
    ranks.models = [known for known in ranks.models if known() is not None]
    ranks.models.append(weakref.ref(ddp))
    _backward(ranks)
    if ddp.__dict__.get("find_unused_parameters") and "walk" not in ranks.loop.undo:
        _walk(ranks, type(ddp.reducer))


def _walk(ranks: Ranks, reducer: Any) -> None:
    """Time the search for unused parameters."""
    original = reducer.prepare_for_backward

    @functools.wraps(original)
    def prepare_for_backward(*args: Any, **kwargs: Any) -> Any:
        begin = now()
        result = original(*args, **kwargs)
        if args[-1]:  # the outputs from where to search; empty where no search is asked for
            _contained(ranks, "walk", ranks.loop.span, WALK, ANNOTATION, begin)
        return result

    reducer.prepare_for_backward = prepare_for_backward
    ranks.loop.undo["walk"] = lambda: setattr(reducer, "prepare_for_backward", original)


def _backward(ranks: Ranks) -> None:
    import torch
    from torch.compiler import is_compiling

    if "exchange" in ranks.loop.undo:
        return
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        ran, queued = time.thread_time_ns(), _queued(ranks)
        begin = now()
        result = original(*args, **kwargs)
        _contained(ranks, "exchange", _exchanged, ranks, begin, ran, queued)
        return result

    torch.autograd.backward = backward
    ranks.loop.undo["exchange"] = lambda: setattr(torch.autograd, "backward", original)


def _exchanged(ranks: Ranks, begin: int, ran: int, queued: int) -> None:
    """A backward pass has ended: what of it was waiting for others, and did it exchange at all?"""
    end = now()
    models = [model for known in ranks.models if (model := known()) is not None]
    syncing = [model for model in models if model.__dict__.get("require_backward_grad_sync")]
    if not syncing:
        ranks.unsynced += bool(models)
        return
    ranks.synced += 1
    if syncing[0].device_type == "cpu":
        idle = end - begin - (time.thread_time_ns() - ran) - (_queued(ranks) - queued)
        recorder, number = ranks.loop.recorder, ranks.loop.recorder.number
        idle = min(max(idle, LEAST_WAIT_NS), end - begin)
        name = number(f"{ranks.backend}:all_reduce")
        recorder.add((end - idle, end, thread(), name, ANNOTATION))
    if ranks.synced % TOLD_EVERY == 2 and ranks.loop.recorder.facts:
        ranks.loop.recorder.facts["ddp"] = _settings(ranks, syncing[0])


def _settings(ranks: Ranks, model: Any) -> dict[str, Any]:
    """Of DistributedDataParallel, with what its own log says."""
    told = model._get_ddp_logging_data()
    kept = (
        "find_unused_parameters",
        "unused_parameter_size",
        "gradient_as_bucket_view",
        "bucket_cap_bytes",
        "num_parameter_tensors",
        "total_parameter_size_bytes",
        "avg_backward_comm_time",
        "avg_backward_compute_comm_overlap_time",
        "broadcast_buffers",
    )
    return {
        **{key: told[key] for key in kept if key in told},
        "static_graph": bool(model.static_graph),
        "exchanges": ranks.synced,
        "without_exchange": ranks.unsynced,
    }


def _queued(ranks: Ranks) -> int:
    """How long this thread has waited for a processor, ns, as the kernel counts it."""
    if ranks.queue_of != thread():
        ranks.queue_of = thread()
        ranks.queue = _open_queue()
    if ranks.queue < 0:
        return 0
    try:
        return int(os.pread(ranks.queue, 80, 0).split()[1])
    except (OSError, ValueError, IndexError):
        ranks.queue = -1
        return 0


def _open_queue() -> int:
    try:
        return os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1  # not Linux, or hidden
