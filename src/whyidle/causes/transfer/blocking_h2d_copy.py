"""The device waits for its copies instead of computing beside them."""

from __future__ import annotations

from whyidle.analysis.copies import CALL_S, copy_place, find_copies
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_digits, format_duration
from whyidle.model.proof_facts import TransferFacts

LEAST_SHARE = 0.01
"""share of the step below which the copies are not worth a word"""


@cause(
    "Copies to the device that nothing overlaps",
    bucket="transfer",
    needs=("device_events", "runtime_calls", "steps"),
)
def blocking_h2d_copy(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Batches come from pinned memory (or the recording does not tell the kind), but the device has
    nothing else to do while they are copied, or the host waits for each copy.

    Why it costs
    ------------
    Copy engines work beside the compute units, yet here copying and computing take turns; a wait
    after the copy also empties the launch queue.

    How it is detected
    ------------------
    Copies to the device, not known to be pageable, with no kernel beside them; idle time inside
    their calls; and idle time while the queue refills after a wait for them. What overlap can win
    is at most the smaller of exposed copying and computing.

    What looks alike
    ----------------
    Copies from pageable memory cannot overlap at all: ``pageable-h2d-copy`` comes first. Copies
    back to the host that the program reads are ``per-step-host-sync``.

    What to do
    ----------
    ``non_blocking=True`` from pinned memory, and copy the next batch on a second stream while the
    present one is computed. Never read a device-to-host copy made with ``non_blocking=True``
    before a synchronisation.

    References
    ----------
    PyTorch, "A guide on good usage of non_blocking and pin_memory()".
    """
    found = find_copies(facts, "other")
    if not len(found) or found.total_share < LEAST_SHARE:
        return None
    calls = max(0.0, found.calls - len(found) * CALL_S / facts.scope_s)
    hidden = min(found.exposed, facts.bucket_share("compute"))
    low = found.refill / 2
    high = hidden + calls + found.refill
    size = float(found.sizes.sum()) / facts.step_count
    told = f"of {format_digits(size / 1e6)} MB " if size else ""
    return Proof(
        headline=f"Copies {told}hold up each step for "
        f"{format_duration(found.total_share * facts.step_s)}, "
        "and nothing runs beside them",
        low=min(low, high),
        high=high,
        predicted=predict_removal(low, high, "P3: min(copying, computing), queue kept full"),
        evidence=(
            make_evidence("copies with nothing beside them, share of step", found.exposed, "ratio"),
            make_evidence("device idle in their calls, share of step", found.calls, "ratio"),
            make_evidence(
                "device idle after waiting for them, share of step", found.refill, "ratio"
            ),
            make_evidence(
                "copies per step", len(found) / facts.step_count, None, samples=len(found)
            ),
            make_evidence("bytes per step", size, "bytes", source="copies"),
        ),
        confidence=0.8,
        where=tuple(place for place in [copy_place(facts, found.rows)] if place),
        facts=TransferFacts(without_overlap=calls + found.refill, exposed=found.exposed),
    )
