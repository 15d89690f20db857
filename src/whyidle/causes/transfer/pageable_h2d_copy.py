"""Batches are copied to the device from pageable memory."""

from __future__ import annotations

from whyidle.analysis.device.copies import CALL_S, Copies, copy_place, find_copies, pinned_gbs
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import HARMLESS, Proof, cause
from whyidle.model.number_text import format_digits
from whyidle.model.proof_facts import TransferFacts


@cause(
    "Copies to the device use pageable memory",
    bucket="transfer",
    needs=("device_events", "runtime_calls", "steps"),
)
def pageable_h2d_copy(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The copy reads from pageable memory. The driver first copies the data to a pinned buffer, piece
    by piece, and the calling thread waits.

    Why it costs
    ------------
    It is slow, cannot overlap with compute, and blocks the thread even with ``non_blocking=True``.

    How it is detected
    ------------------
    Copies named ``Pageable -> Device`` run without concurrent useful work for at least 0.5 % of the
    step. The prediction assumes the rate of pinned copies: that of this recording, or else the
    usual rate of the board, but at most eight times the present rate (lower bound: half the usual
    rate, at most twice the present one). The upper bound also overlaps copies with compute.

    What looks alike
    ----------------
    A call that waits until the device has finished computing costs nothing. ROCm does not record
    the kind of memory; see ``blocking-h2d-copy``.

    What to do
    ----------
    Use ``DataLoader(pin_memory=True)`` and ``tensor.to(device, non_blocking=True)``. Do not call
    ``pin_memory()`` in the training loop: it costs more than it saves.

    References
    ----------
    PyTorch, "A guide on good usage of non_blocking and pin_memory()"; Gao et al., ICSE 2024 (27.9 %
    of issues; speed-ups of 1.15 and 1.03).
    """
    copies = find_copies(facts, "pageable")
    if not len(copies) or copies.total_share < HARMLESS:
        return None
    likely, careful, source = pinned_gbs(facts, copies.overall_rate)
    calls = max(0.0, copies.calls - len(copies) * CALL_S / facts.scope_s)
    rest = copies.exposed * copies.at_rate(likely) / max(float(copies.seconds.sum()), 1e-12)
    low = _faster_copy_share(copies, careful)
    faster = _faster_copy_share(copies, likely)
    expected = faster + calls + copies.refill / 2
    high = faster + calls + copies.refill + min(rest, facts.bucket_share("compute"))
    high = min(max(high, expected), copies.total_share)
    per_step = float(copies.sizes.sum()) / facts.step_count
    return Proof(
        headline=f"{format_digits(per_step / 1e6)} MB per step are copied from pageable memory"
        + (f" at {format_digits(rate)} GB/s" if (rate := copies.median_rate()) else ""),
        low=min(low, high),
        high=high,
        predicted=predict_removal(
            low, high, "P3 and bytes x (1/pageable - 1/pinned), exposed", expected
        ),
        evidence=(
            make_evidence("bytes per step", per_step, "bytes", source="copies"),
            *([make_evidence("their rate", rate * 1e9, "B/s", source="copies")] if rate else []),
            make_evidence("rate of pinned copies", likely * 1e9, "B/s", source=source),
            make_evidence("exposed copies, share of step", copies.exposed, "ratio"),
            make_evidence("device idle in copy calls, share of step", copies.calls, "ratio"),
        ),
        confidence=0.9,
        where=tuple(place for place in [copy_place(facts, copies.rows)] if place),
        facts=TransferFacts(without_overlap=min(expected, high), exposed=copies.exposed),
    )


def _faster_copy_share(copies: Copies, gbs: float) -> float:
    took = float(copies.seconds.sum())
    return copies.exposed * (1.0 - copies.at_rate(gbs) / took) if took else 0.0
