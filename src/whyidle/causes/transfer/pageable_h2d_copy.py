"""Batches are copied to the device from ordinary, pageable memory."""

from __future__ import annotations

from whyidle.analysis.copies import CALL_S, Copies, copy_place, find_copies, pinned_gbs
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_digits
from whyidle.model.proof_facts import TransferFacts

LEAST_SHARE = 0.005
"""share of the step below which the copies are not worth a word"""


@cause(
    "Copies to the device from pageable memory",
    bucket="transfer",
    needs=("device_events", "runtime_calls", "steps"),
)
def pageable_h2d_copy(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The host's side of the copy is ordinary memory. The driver first copies it into a pinned buffer
    of its own, piece by piece, and the calling thread waits.

    Why it costs
    ------------
    The copy is slower than the link, cannot run beside compute, and holds up the launching thread
    whatever ``non_blocking`` says.

    How it is detected
    ------------------
    Copies named ``Pageable -> Device`` with nothing useful beside them. The prediction replaces
    their measured rate by that of pinned copies (seen in this recording, or the class of the
    board, but no more than eight times the measured rate; at the careful end half of the class, or
    twice the measured rate) on the exposed part, and takes the wait of the calls away. At best the
    rest hides behind compute, too.

    What looks alike
    ----------------
    A copy call that lasts because the device still computes costs nothing: only device time
    without useful work counts. ROCm does not record the kind of memory; see ``blocking-h2d-copy``.

    What to do
    ----------
    ``DataLoader(pin_memory=True)`` and ``tensor.to(device, non_blocking=True)``. Calling
    ``pin_memory()`` in the training loop itself costs more than it wins.

    References
    ----------
    PyTorch, "A guide on good usage of non_blocking and pin_memory()"; Gao et al., ICSE 2024
    (27.9 % of issues; 1.15 x and 1.03 x measured).
    """
    found = find_copies(facts, "pageable")
    if not len(found) or found.total_share < LEAST_SHARE:
        return None
    likely, careful, source = pinned_gbs(facts, found.overall_rate)
    calls = max(0.0, found.calls - len(found) * CALL_S / facts.scope_s)
    rest = found.exposed * found.at_rate(likely) / max(float(found.seconds.sum()), 1e-12)
    low = _faster_copy_share(found, careful)
    expected = _faster_copy_share(found, likely) + calls + found.refill / 2
    high = (
        _faster_copy_share(found, likely)
        + calls
        + found.refill
        + min(rest, facts.bucket_share("compute"))
    )
    high = min(max(high, expected), found.total_share)
    per_step = float(found.sizes.sum()) / facts.step_count
    return Proof(
        headline=f"{format_digits(per_step / 1e6)} MB per step are copied from pageable memory"
        + (f" at {format_digits(rate)} GB/s" if (rate := found.median_rate()) else ""),
        low=min(low, high),
        high=high,
        predicted=predict_removal(
            low, high, "P3 and bytes x (1/pageable - 1/pinned), exposed", expected
        ),
        evidence=(
            make_evidence("bytes per step", per_step, "bytes", samples=len(found), source="copies"),
            *([make_evidence("their rate", rate * 1e9, "B/s", source="copies")] if rate else []),
            make_evidence("rate of pinned copies", likely * 1e9, "B/s", source=source),
            make_evidence("copies with nothing beside them, share of step", found.exposed, "ratio"),
            make_evidence("device idle in their calls, share of step", found.calls, "ratio"),
        ),
        confidence=0.9,
        where=tuple(place for place in [copy_place(facts, found.rows)] if place),
        facts=TransferFacts(without_overlap=min(expected, high), exposed=found.exposed),
    )


def _faster_copy_share(found: Copies, gbs: float) -> float:
    """Exposed share that a faster rate saves."""
    took = float(found.seconds.sum())
    return found.exposed * (1.0 - found.at_rate(gbs) / took) if took else 0.0
