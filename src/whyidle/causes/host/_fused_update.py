"""Time of a fused optimizer update on a CPU, predicted from the time of a loop over the tensors.

Both pay for the call (Python), for each tensor, and for the bytes moved. On a tiny model the call
dominates, and a fused update pays it too. The costs of calls and tensors were measured on a quiet
machine; the recorded loop shows how much slower this machine is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from whyidle.model.process_facts import OptimizerFacts


class Estimate(NamedTuple):
    """One quantity at the low, expected and high end of the gain."""

    low: float
    expected: float
    high: float


TENSOR_S = Estimate(6e-6, 4e-6, 2e-6)
"""cost of a fused update per tensor: 4.8 us with 122 small ones, measured in a training step"""


class Update(NamedTuple):
    """Costs of an update of 32-bit numbers."""

    call_s: float  # of the call, in either form
    tensor_s: float  # per tensor of a loop
    looped: int  # bytes per element that a loop moves
    fused: int  # bytes per element that a fused update moves
    stored: int  # bytes per element of parameters, gradients and states
    fused_s: Estimate = TENSOR_S  # per tensor of a fused update


UPDATES: Final = {
    "Adam": Update(100e-6, 40e-6, 72, 28, 16),
    "AdamW": Update(100e-6, 45e-6, 80, 28, 16),
    "Adagrad": Update(95e-6, 20e-6, 44, 20, 12),
    "SGD": Update(75e-6, 10e-6, 32, 20, 12),
}
"""lines through lower quartiles of 2 to 64 tensors of 10 to 4,096 elements, in training steps
(PyTorch 2.13, one thread): a fused Adam took 108 us for 2 tensors and 142 us for 8, a loop 168 and
397 us. Bytes are counted from the operators"""
PLAIN = Update(70e-6, 2.7e-6, 12, 12, 8, Estimate(2.7e-6, 1.8e-6, 1e-6))
"""SGD without momentum has one operator per tensor and nothing to fuse: a loop took 70 us and a
fused update 71 us for 2 tensors, 247 and 153 us for 64 tensors, 0.42 and 0.43 ms for half a million
elements"""
BYTES_PER_S = Estimate(5e9, 12e9, 30e9)
"""memory traffic of one core in a fused update. Low: a core that shares the memory bandwidth;
expected: STREAM on one core of a server (10 to 15 GB/s); high: from a cache, 20 to 28 GB/s were
measured for AdamW with 20 MB of parameters and states (PyTorch 2.13, two virtual cores)"""
CACHED_BYTES, CACHED_BYTES_PER_S = 20e6, 20e9
"""size of parameters, gradients and states that stay in the caches from step to step, and their
expected traffic: the lowest measured for 20 MB. Fused AdamW over 1.6 MB (122 tensors) to 12.2 MB
(18) took 0.39 to 0.86 ms between training steps, a loop 1.6 to 3.5 ms (five perceptrons, PyTorch
2.13, one virtual core)"""


def fused_update_s(optimizer: OptimizerFacts, taken_s: float) -> Estimate:
    """Seconds of a fused update of an optimizer whose loop took ``taken_s``.

    The time of the loop that its bytes do not explain shows how slow the machine is. Bytes explain
    least if memory is fast, so the low end assumes fast memory in the loop and slow memory in the
    fused update."""
    plain = optimizer.name == "SGD" and not optimizer.momentum
    costs = PLAIN if plain else UPDATES[optimizer.name]
    tensors, elements = optimizer.tensors, optimizer.elements
    speeds = BYTES_PER_S
    if elements * costs.stored <= CACHED_BYTES:
        speeds = speeds._replace(expected=CACHED_BYTES_PER_S)
    times = []
    for speed, tensor_s, loop_speed in zip(speeds, costs.fused_s, reversed(speeds), strict=True):
        quiet_s = costs.call_s + tensors * costs.tensor_s + elements * costs.looped / loop_speed
        calls_s = (costs.call_s + tensors * tensor_s) * taken_s / quiet_s
        times.append(elements * costs.fused / speed + calls_s)
    return Estimate(*times)
