"""The GPUs of a simulated cluster, and where a job's devices are put."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.fleet_rows import WHOLE, FleetJob, NodeRow
from whyidle.model.fleet_what_if import Division, Placement

MIG: Final = ((1, 1), (2, 2), (3, 4), (4, 4), (7, 8))
"""slices of a MIG profile: of 7 compute slices, and of 8 memory slices (NVIDIA's MIG User Guide,
profiles of A100 and H100)"""
MIG_DEVICE: Final = (7, 8)
Rooms = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job asks for: ``devices`` of each of ``parts`` nodes, ``room`` on each device, CPUs on
    each node, and types of GPU (empty: any)."""

    devices: int
    parts: int
    room: tuple[int, int]
    cpus: float
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """Devices of one node that a job holds."""

    node: int
    devices: NDArray[np.intp]


class Cluster:
    """Free room of every device, in the units of the division, and free CPUs of every node."""

    def __init__(self, nodes: Sequence[NodeRow], division: Division) -> None:
        self.division = division
        whole = MIG_DEVICE if division == "mig" else (WHOLE, 0)
        most = max((node.gpus for node in nodes), default=0)
        self.exists = np.arange(most)[None, :] < np.array([node.gpus for node in nodes])[:, None]
        self.rooms: Rooms = np.zeros((len(nodes), most, 2), np.int32)
        self.rooms[self.exists] = whole
        self.whole = whole
        self.cpus = np.array([np.inf if n.cpus is None else n.cpus for n in nodes], np.float64)
        self.types = np.array([node.gpu_type or "" for node in nodes])

    def demand_of(self, job: FleetJob) -> Demand:
        """What a job asks for. One that is larger than every node takes whole nodes."""
        most = self.rooms.shape[1]
        parts = job.nodes or 1
        if job.gpus > parts * most:
            parts = -(-job.gpus // most)
        return Demand(
            devices=-(-job.gpus // parts),
            parts=parts,
            room=self._room_of(job),
            cpus=(job.cpus or 0.0) / parts,
            types=tuple(filter(None, (job.gpu_type or "").split("|"))),
        )

    def _room_of(self, job: FleetJob) -> tuple[int, int]:
        if self.division == "whole":
            return WHOLE, 0
        if self.division == "share":
            return job.milli, 0
        needed = -(-job.milli * MIG_DEVICE[0] // WHOLE)
        return next(profile for profile in MIG if profile[0] >= needed)

    def can_ever_hold(self, demand: Demand) -> bool:
        """Whether an empty cluster holds it."""
        nodes = self._nodes_of_type(demand) & (self.exists.sum(axis=1) >= demand.devices)
        return int(nodes.sum()) >= demand.parts

    def _nodes_of_type(self, demand: Demand) -> NDArray[np.bool_]:
        if not demand.types or not any(self.types):
            return np.ones(len(self.types), bool)
        return np.isin(self.types, demand.types)

    def place(self, demand: Demand, placement: Placement) -> list[Slot] | None:
        """Take the devices of a job; None, and nothing is taken, if they are not all free."""
        fitting = (self.rooms >= np.array(demand.room)).all(axis=2) & self.exists
        ready = (fitting.sum(axis=1) >= demand.devices) & (self.cpus >= demand.cpus)
        ready &= self._nodes_of_type(demand)
        nodes = np.flatnonzero(ready)
        if len(nodes) < demand.parts:
            return None
        if placement != "first-fit":
            free = self.rooms[nodes, :, 0].sum(axis=1)
            nodes = nodes[np.argsort(free if placement == "best-fit" else -free, kind="stable")]
        slots = []
        for node in nodes[: demand.parts]:
            devices = np.flatnonzero(fitting[node])
            if placement != "spread":  # fill devices that are in use before others
                devices = devices[np.argsort(self.rooms[node, devices, 0], kind="stable")]
            slots.append(Slot(int(node), devices[: demand.devices]))
        self._change(slots, demand, -1)
        return slots

    def release(self, slots: Sequence[Slot], demand: Demand) -> None:
        """Give devices back."""
        self._change(slots, demand, 1)

    def _change(self, slots: Sequence[Slot], demand: Demand, sign: int) -> None:
        for slot in slots:
            self.rooms[slot.node, slot.devices] += sign * np.array(demand.room, np.int32)
            self.cpus[slot.node] += sign * demand.cpus

    def copy(self) -> Cluster:
        """The same cluster, to try something out."""
        other = object.__new__(Cluster)
        other.__dict__.update(self.__dict__, rooms=self.rooms.copy(), cpus=self.cpus.copy())
        return other

    def free_devices(self, demand: Demand) -> int:
        """Devices with room for one of a job's, wherever they are."""
        fitting = (self.rooms >= np.array(demand.room)).all(axis=2) & self.exists
        return int(fitting.sum())

    def used_devices(self) -> int:
        """Devices of which some room is taken."""
        return int(((self.rooms[..., 0] < self.whole[0]) & self.exists).sum())

    def stranded_room(self) -> float:
        """Free shares of devices that are in use, in devices."""
        used = (self.rooms[..., 0] < self.whole[0]) & self.exists
        return float(self.rooms[..., 0][used].sum()) / self.whole[0]
