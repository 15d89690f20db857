"""A compiled step writes its new parameters into new memory."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_bytes

FRESH_BYTES_PER_S = 2.5e9
"""rate of new memory from the system: a page fault, which clears 4 KiB, takes 1 to 2 us"""
ANEW = 0.5
"""least share of the outputs that must come from the system: an allocator either maps large arrays
in every step or keeps their memory, and fewer page faults come from temporary arrays"""
OWN = (0.0, 0.5, 1.0)
"""share of the new memory that is for outputs (low, expected, high cost), not temporary arrays"""


@cause(
    "Parameters are written to new memory instead of updated in place",
    bucket="compute",
    needs=("device_time", "own_settings", "steady_steps"),
    frameworks=("jax",),
)
def undonated_buffers(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A function compiled by ``jax.jit`` returns parameters and optimizer state in new memory while
    the old ones still exist. With ``donate_argnums`` it reuses the memory of its arguments.

    Why it costs
    ------------
    Every step allocates a second copy of the parameters and the optimizer state. Memory from the
    system must be cleared page by page; memory that the allocator keeps costs almost nothing.

    How it is detected
    ------------------
    After the third step of a watched job on the CPU, the probe compares outputs with arguments of
    the same shape and type that were not deleted. Page faults show how much memory each step takes
    from the system, which costs 1 s per 2.5 GB. The prediction assumes that none, half or all of it
    is for the outputs. If it is less than half of their size, nothing is reported. Measured with
    Adam (JAX 0.10, CPU): 274 to 156 ms per step for a 6 x 2048 network, 83 to 77 ms for 12 x 1024,
    whose memory the allocator kept, and no gain for 6 x 512.

    What looks alike
    ----------------
    A loader that allocates memory for every batch causes page faults too; at most the bytes of the
    outputs count. On a GPU the allocator keeps its memory, so this is not judged.

    What to do
    ----------
    Use ``jax.jit(step, donate_argnums=(0, 1))`` for parameters and optimizer state. The arguments
    cannot be used after the call: read or save the returned values.

    References
    ----------
    JAX, "Buffer donation"; JAX FAQ.
    """
    process = facts.timeline.process
    copied, fresh = process.copied_bytes, process.fresh_bytes
    if not facts.on_cpu or not copied or fresh is None or fresh < ANEW * copied:
        return None
    taking = min(copied, fresh) / FRESH_BYTES_PER_S
    compute = facts.bucket_share("compute")
    gains = [min(own * taking / facts.step_s, compute) for own in OWN]
    if gains[1] < LEAST_SHARE:
        return None
    return Proof(
        headline=f"Each step allocates {format_bytes(copied)} for new parameters and optimizer "
        f"state "
        "instead of updating them in place",
        predicted=from_gains((gains[0], gains[1], gains[2]), "bytes at the rate of page faults"),
        evidence=(
            make_evidence("outputs whose arguments keep their memory", copied, "bytes"),
            make_evidence("memory taken from the system per step", fresh, "bytes"),
        ),
        confidence=0.8,
    )
