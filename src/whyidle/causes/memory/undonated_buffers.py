"""A compiled step writes its new parameters into new memory."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_bytes

FRESH_BYTES_PER_S = 2.5e9
"""taking memory from the system anew: a page fault of 4 KiB with its clearing takes 1 to 2 us"""
ANEW = 0.5
"""least part of the outputs that must come from the system anew: an allocator maps large arrays for
every step or keeps their memory, and fewer page faults are those of temporary arrays"""
OWN = (0.0, 0.5, 1.0)
"""part of the memory that is taken anew that is the outputs' (low, expected, high cost): the rest
are temporary arrays of the step"""


@cause(
    "Parameters are written to new memory instead of updated in place",
    bucket="compute",
    needs=("device_time", "own_settings", "steady_steps"),
    frameworks=("jax",),
)
def undonated_buffers(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A function compiled by ``jax.jit`` returns parameters and optimizer state in new memory, while
    the old ones are still held. With ``donate_argnums`` it reuses the memory of its arguments.

    Why it costs
    ------------
    Every step takes memory for a second copy of the model and its optimizer's state and gives the
    first one back. Memory that goes back to the system must be cleared again, page by page, when it
    returns. Memory that the allocator keeps costs next to nothing.

    How it is detected
    ------------------
    After a watched job's third step, arguments that were not deleted are matched with outputs of
    the same shape and type. The process's page faults per step tell how much memory comes from the
    system anew (2.5 GB/s): none, half or all of it is that of the outputs. On a 6 x 2048 network
    with Adam, 302 MB, donating took steps from 274 to 156 ms; on 12 x 1024, 151 MB that the
    allocator kept, from 83 to 77 ms; with 107 MB, of which 8 MB came anew, and on 6 x 512 nothing
    was gained (JAX 0.10, CPU). Outputs of which less than half comes anew are not judged.

    What looks alike
    ----------------
    Memory that a loader takes anew for every batch also causes page faults; only as much counts as
    the step's outputs have bytes. On a GPU the allocator keeps its memory, and donating saves
    memory rather than time: it is not judged there.

    What to do
    ----------
    ``jax.jit(step, donate_argnums=(0, 1))`` for parameters and optimizer state. The arguments are
    gone after the call: read or save what the function returns.

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
        low=gains[0],
        high=gains[2],
        predicted=from_gains((gains[0], gains[1], gains[2]), "bytes at the rate of page faults"),
        evidence=(
            make_evidence("outputs whose arguments keep their memory", copied, "bytes"),
            make_evidence("memory taken from the system per step", fresh, "bytes"),
        ),
        confidence=0.8,
    )
