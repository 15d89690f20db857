"""Collectives between processes that each have an emulated device.

The numbers go through gloo. The time is the device's: each rank's kernel begins on a stream of its
own when the rank's device has come to it, waits there for the last rank's, as NCCL's do, and then
takes ``network_ns + volume / network_bandwidth``. The ranks of a machine share a clock, so they
agree on the moment. What the host must know, numbers and moments, it gets when the others' hosts
have come to the same call; whoever uses a tensor before that waits (``fences``).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import distributed

from emulator.device import devices, fences
from emulator.device.fences import Fence
from emulator.device.stream import COMMUNICATION, Cost, Launch, Stream
from emulator.device.tensor import EmulatedTensor

NAME = "emulated"
c10d: Any = getattr(torch._C, "_distributed_c10d", None)
"""what groups are made of; a PyTorch without collectives has none"""
VOLUMES = {"allreduce": 2.0, "allreduce_coalesced": 2.0}
"""times (n - 1) / n of the bytes; the others once"""
CALLS = (
    "allreduce",
    "allreduce_coalesced",
    "broadcast",
    "reduce",
    "allgather",
    "_allgather_base",
    "allgather_into_tensor_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "_reduce_scatter_base",
    "alltoall",
    "alltoall_base",
    "barrier",
    "send",
    "recv",
)


class Job(NamedTuple):
    """One collective of this rank."""

    call: Callable[[], Any]
    future: Any
    result: Any
    fence: Fence | None
    ready: int
    ns: int
    launch: Launch | None


class Group(distributed.ProcessGroup):
    """A process group for tensors on the device; those of the host go to gloo as they are."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]
        own = c10d.PrefixStore(NAME, store)
        self.gloo: Any = c10d.ProcessGroupGloo(own, rank, size, timeout)
        self.members = size
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.streams: dict[int, Stream] = {}
        threading.Thread(target=self._serve, name="emulated-collectives", daemon=True).start()

    def getBackendName(self) -> str:  # noqa: N802  # PyTorch's name
        """What the backend is called."""
        return NAME

    def _submit(self, name: str, args: Sequence[Any]) -> Any:
        held: list[EmulatedTensor] = []
        given = [_unwrapped(each, held) for each in args]
        inner = getattr(self.gloo, name)
        future: Any = torch.futures.Future()
        result = [] if name == "barrier" else args[0]
        job = Job(lambda: inner(*given), future, result, None, 0, 0, None)
        if held:
            job = self._priced(job, name, held)
        self.jobs.put(job)
        return c10d._create_work_from_future(future)

    def _priced(self, job: Job, name: str, held: list[EmulatedTensor]) -> Job:
        device = devices.device(held[0].get_device())
        fences.cross([each.block for each in held], device)
        config, size = device.config, sum(each.numbers.nbytes for each in held)
        volume = VOLUMES.get(name, 1.0) * size * (self.members - 1) / self.members
        fence = Fence(device)
        for each in held:
            fences.raised[each.block] = fence
        device.pending.append(fence.known)
        launch = None
        if device.record.heard is not None:
            launch = device._launched(_kernel(name))
            elements = sum(each.numel() for each in held)
            launch.told = {
                "Collective name": name.strip("_"),
                "In msg nelems": elements,
                "Group size": self.members,
            }
        ns = config.network_ns + int(volume / config.network_bandwidth * 1e9)
        return job._replace(fence=fence, ready=device.mark(), ns=ns, launch=launch)

    def _serve(self) -> None:
        """One collective after another, in the order in which they were called."""
        while True:
            job = self.jobs.get()
            try:
                job.call().wait()
                if job.fence is not None:
                    self._time(job, job.fence)
            except Exception as error:  # the caller's: it is raised where he waits
                job.future.set_exception(error)
            else:
                job.future.set_result(job.result)
            finally:
                if job.fence is not None:
                    job.fence.device.pending.remove(job.fence.known)
                    job.fence.done.set()

    def _time(self, job: Job, fence: Fence) -> None:
        device = fence.device
        stream = self.streams.get(device.index)
        if stream is None:
            stream = self.streams[device.index] = device.stream()
        ready = max(job.ready, stream.tail)
        met = torch.tensor([ready])
        options = c10d.AllreduceOptions()
        options.reduceOp = c10d.ReduceOp.MAX
        self.gloo.allreduce([met], options).wait()
        with device.lock:
            end = int(met.item()) + job.ns
            stream.put(ready, Cost(COMMUNICATION, end - ready, job.ns, launch=job.launch))
            fence.moment = stream.tail


def _calls(name: str) -> Callable[..., Any]:
    def call(self: Group, *args: Any, **options: Any) -> Any:
        return self._submit(name, [*args, *options.values()])

    call.__name__ = name
    return call


for _name in CALLS:
    setattr(Group, _name, _calls(_name))


def _unwrapped(value: Any, held: list[EmulatedTensor]) -> Any:
    if isinstance(value, EmulatedTensor):
        held.append(value)
        return value.numbers
    if isinstance(value, (list, tuple)):
        return [_unwrapped(each, held) for each in value]
    return value


def _kernel(name: str) -> str:
    kind = {"allreduce": "AllReduce_Sum", "broadcast": "Broadcast"}.get(name, name.strip("_"))
    return f"ncclDevKernel_{kind}_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def _made(store: Any, rank: int, size: int, timeout: timedelta) -> Group:
    return Group(store, rank, size, timeout)


def install() -> None:
    """Let ``init_process_group("emulated")`` make such groups."""
    if distributed.is_available():
        distributed.Backend.register_backend(NAME, _made, devices=[NAME])
