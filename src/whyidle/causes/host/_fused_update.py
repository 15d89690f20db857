"""Time of a fused optimizer update on a CPU, predicted from the time of the present update.

Each implementation pays for the call, for every parameter group, for every tensor (Python, and
memory that is no longer cached) and for the bytes moved. A fused update still visits each group and
each tensor. The costs were measured side by side; the recorded update shows how much slower or
faster this machine is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from whyidle.model.process_facts import OptimizerFacts


class Estimate(NamedTuple):
    """One quantity at the low, expected and high end of the gain."""

    low: float
    expected: float
    high: float


class Costs(NamedTuple):
    """Costs of one implementation (us): of a parameter group, and of a tensor."""

    group: float
    tensor: float


class Update(NamedTuple):
    """Costs of an update of 32-bit numbers, by implementation."""

    call_us: float  # of the call, in any form
    loop: Costs
    foreach: Costs
    fused: Costs
    unfused_bytes: int  # per element that a loop, or foreach, moves
    fused_bytes: int  # per element that a fused update moves


UPDATES: Final = {
    "Adam": Update(50, Costs(7, 25), Costs(45, 18), Costs(13, 7.7), 72, 28),
    "AdamW": Update(50, Costs(8, 29), Costs(45, 20), Costs(13, 8.5), 80, 28),
    "Adagrad": Update(40, Costs(2, 18), Costs(25, 16), Costs(11, 6.5), 44, 20),
    "SGD": Update(30, Costs(1, 10.7), Costs(11, 9.3), Costs(8, 5.2), 32, 20),
}
"""read off ``bench/optimizer_updates.py``: 4 to 96 tensors of 900 to 540,000 elements, in one group
or one each, in training steps (PyTorch 2.13, one thread). Bytes are counted from the operators"""
PLAIN = Update(30, Costs(1, 4.3), Costs(8.6, 2.8), Costs(9, 2.4), 12, 12)
"""SGD without momentum has one operator per tensor and nothing to fuse"""
TENSOR = Estimate(1.4, 1.0, 0.5)
"""cost of a tensor in a fused update, relative to the table: half of it was measured on a quiet
machine with tiny tensors, which stay in the core's cache"""
TRAFFIC = Estimate(1.6, 1.2, 0.75)
"""the same of its memory traffic: a loop finds a tensor in the cache again at its next operator"""
BYTES_PER_S = 25e9
"""memory traffic of one core: 24 to 33 GB/s for 1 to 42 MB of parameters, gradients and states"""


def fused_update_s(optimizer: OptimizerFacts, taken_s: float) -> Estimate:
    """Seconds of a fused update of an optimizer whose update took ``taken_s``.

    An update that is slower than the table may run on a slow machine, where a fused one is as slow
    (low end), or wait for memory that it allocates, which a fused one does not (high end). Calls
    are expected to be as slow, memory traffic is not."""
    plain = optimizer.name == "SGD" and not optimizer.momentum
    update = PLAIN if plain else UPDATES[optimizer.name]
    present = update.foreach if optimizer.foreach else update.loop
    unit_s = optimizer.elements / BYTES_PER_S
    slower = taken_s / (
        _calls_s(optimizer, update, present, present.tensor) + update.unfused_bytes * unit_s
    )
    allocates = update.unfused_bytes > update.fused_bytes
    at_most = min(slower, 1.0) if allocates else slower
    times = [
        calls * _calls_s(optimizer, update, update.fused, tensor * update.fused.tensor)
        + bytes_ * traffic * update.fused_bytes * unit_s
        for calls, bytes_, tensor, traffic in zip(
            (slower, slower, at_most), (slower, at_most, at_most), TENSOR, TRAFFIC, strict=True
        )
    ]
    return Estimate(*times)


def _calls_s(optimizer: OptimizerFacts, update: Update, costs: Costs, tensor_us: float) -> float:
    """Seconds of an update without its memory traffic."""
    groups_us = optimizer.groups * costs.group
    return (update.call_us + groups_us + optimizer.tensors * tensor_us) * 1e-6
