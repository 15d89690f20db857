"""What a fused update on a CPU takes, where a loop over the tensors was seen to take a while.

Both pay for the call itself (Python), for each tensor, and for the bytes that they move. On a tiny
model the call is all there is, and a fused one pays it as well. Calls and tensors are known from a
quiet machine; how much slower this one is, the loop itself tells.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from whyidle.model.process_facts import OptimizerFacts


class Ends(NamedTuple):
    """Something careful, expected and hopeful."""

    careful: float
    expected: float
    hopeful: float


TENSOR_S = Ends(6e-6, 4e-6, 2e-6)
"""what a fused update still costs per tensor: 4.8 us of 122 small ones, measured beside the rest"""


class Update(NamedTuple):
    """What an update of 32-bit numbers costs: its call in either form, each tensor of a loop and
    of a fused update (s), and bytes per element: moved by a loop, moved by a fused update, and
    kept."""

    call_s: float
    tensor_s: float
    looped: int
    fused: int
    held: int
    fused_s: Ends = TENSOR_S


UPDATES: Final = {
    "Adam": Update(100e-6, 40e-6, 72, 28, 16),
    "AdamW": Update(100e-6, 45e-6, 80, 28, 16),
    "Adagrad": Update(95e-6, 20e-6, 44, 20, 12),
    "SGD": Update(75e-6, 10e-6, 32, 20, 12),
}
"""lines through lower quartiles of 2 to 64 tensors of 10 to 4,096 elements, in training steps
(PyTorch 2.13, one thread): a fused Adam took 108 us of 2 tensors and 142 us of 8, a loop 168 and
397 us. Bytes are counted from the operators"""
PLAIN = Update(70e-6, 2.7e-6, 12, 12, 8, Ends(2.7e-6, 1.8e-6, 1e-6))
"""SGD without momentum, one operator a tensor, for which there is nothing to fuse: of 2 tensors a
loop took 70 us and a fused update 71 us, of 64 tensors 247 and 153 us, of half a million elements
0.42 and 0.43 ms"""
BYTES_PER_S = Ends(5e9, 12e9, 30e9)
"""memory traffic of one core in a fused update: careful, a core that shares its memory's bandwidth;
expected, what STREAM shows for one core of a server (10 to 15 GB/s); hopeful, from a cache: 20 to
28 GB/s were measured for AdamW of 20 MB of parameters and states (PyTorch 2.13, two virtual
cores)"""
KEPT_BYTES, KEPT_BYTES_PER_S = 20e6, 20e9
"""so many bytes of parameters, gradients and states stay in the caches from step to step, and what
is expected of them then: the least that was measured of 20 MB. Fused AdamW over 1.6 MB (122
tensors) to 12.2 MB (18) took 0.39 to 0.86 ms between training steps, a loop 1.6 to 3.5 ms (five
perceptrons, PyTorch 2.13, one virtual core)"""


def fused_s(told: OptimizerFacts, taken_s: float) -> Ends:
    """What a fused update takes of an optimizer whose loop took ``taken_s``. The machine is taken
    to be slower by what bytes do not explain of the loop: they explain least where memory is fast,
    so that the careful end is of fast memory in the loop and of slow memory in the fused update."""
    each = PLAIN if told.name == "SGD" and not told.momentum else UPDATES[told.name]
    tensors, elements = told.tensors, told.elements
    expected = KEPT_BYTES_PER_S if elements * each.held <= KEPT_BYTES else BYTES_PER_S.expected
    speeds = BYTES_PER_S._replace(expected=expected)
    return Ends(
        *(
            elements * each.fused / speed
            + (each.call_s + tensors * still)
            * _loop_slowdown(each, tensors, elements / looped, taken_s)
            for speed, still, looped in zip(speeds, each.fused_s, reversed(speeds), strict=True)
        )
    )


def _loop_slowdown(each: Update, tensors: int, elements_per_speed: float, taken_s: float) -> float:
    """How many times as long the loop took as it does on a quiet machine."""
    return taken_s / (each.call_s + tensors * each.tensor_s + elements_per_speed * each.looped)
