"""Copies to the device that do not overlap with compute."""

from __future__ import annotations

from whyidle.analysis.device.copies import CALL_S, copy_place, find_copies
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_digits, format_duration
from whyidle.model.proof_facts import TransferFacts


@cause(
    "Copies to the device hold up the step",
    bucket="transfer",
    needs=("device_events", "runtime_calls", "steps"),
)
def blocking_h2d_copy(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Batches are copied from pinned memory (or memory of unknown kind), but the device has no other
    work during the copy, or the host waits for it.

    Why it costs
    ------------
    Copy engines can work in parallel with the compute units, but here they take turns. A wait after
    the copy also empties the launch queue.

    How it is detected
    ------------------
    Three shares of the step are added up: copies without concurrent kernels, idle time inside copy
    calls, and idle time while the queue refills. The sum must reach 1 %. Overlap can save at most
    the exposed copies, and at most the compute time (P3).

    What looks alike
    ----------------
    Copies from pageable memory cannot overlap: see ``pageable-h2d-copy`` first. Copies to the host
    that the program reads are reported as ``per-step-host-sync``.

    What to do
    ----------
    Use pinned memory with ``non_blocking=True``, and copy the next batch on a second stream during
    the current step. Synchronise before you read a device-to-host copy of that kind.

    References
    ----------
    PyTorch, "A guide on good usage of non_blocking and pin_memory()".
    """
    copies = find_copies(facts, "other")
    if not len(copies) or copies.total_share < LEAST_SHARE:
        return None
    calls = max(0.0, copies.calls - len(copies) * CALL_S / facts.scope_s)
    hidden = min(copies.exposed, facts.bucket_share("compute"))
    low = copies.refill / 2
    high = hidden + calls + copies.refill
    size = float(copies.sizes.sum()) / facts.step_count
    size_text = f"of {format_digits(size / 1e6)} MB " if size else ""
    return Proof(
        headline=f"Copies {size_text}hold up each step for "
        f"{format_duration(copies.total_share * facts.step_s)} without overlap",
        low=min(low, high),
        high=high,
        predicted=predict_removal(low, high, "P3: min(copying, computing), queue kept full"),
        evidence=(
            make_evidence("exposed copies, share of step", copies.exposed, "ratio"),
            make_evidence("device idle in copy calls, share of step", copies.calls, "ratio"),
            make_evidence("device idle after copies, share of step", copies.refill, "ratio"),
            make_evidence("copies per step", len(copies) / facts.step_count, None),
            make_evidence("bytes per step", size, "bytes", source="copies"),
        ),
        confidence=0.8,
        where=tuple(place for place in [copy_place(facts, copies.rows)] if place),
        facts=TransferFacts(without_overlap=calls + copies.refill, exposed=copies.exposed),
    )
