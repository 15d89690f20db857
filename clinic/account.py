"""Attribution beside the emulated device's own account, and that device's shares beside a GPU's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

import msgspec

from clinic.card import Case
from clinic.outcome import Outcome
from clinic.wording import percent
from whyidle.model.buckets import BUCKETS

ALLOWED = 0.05
"""how far a share may be from the device's own"""
DOES = {"compute": "compute", "transfer": "copy", "communication": "collective"}
"""what a device that writes down what it does can know of a bucket; the rest of the bucket is idle
time that was blamed on something, such as a queue that fills again behind a copy"""
Pair = tuple[Case, Outcome]


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Of all cases that the emulated device gave an account of; shares are 0 to 1."""

    count: int
    within: int
    """off by no more than is allowed"""
    worst: float
    told_worst: float
    """the same, what was left unknown counted as an error"""
    unknown: float
    """left unknown, on average"""
    unknown_most: float


def attribution(outcomes: Sequence[Outcome]) -> Attribution | None:
    """None where no device told of itself."""
    found = [(one, error) for one in outcomes if (error := attribution_error(one)) is not None]
    if not found:
        return None
    left = [unknown(one) for one, _ in found]
    return Attribution(
        count=len(found),
        within=sum(error <= ALLOWED for _, error in found),
        worst=max(error for _, error in found),
        told_worst=max(_differences(one, 0.0) for one, _ in found),
        unknown=mean(left),
        unknown_most=max(left),
    )


def attribution_error(outcome: Outcome) -> float | None:
    """The largest difference of a share from the device's own account. What is said to be unknown
    may belong to any share that is too small, and makes up for none that is too large."""
    if outcome.truth is None or outcome.evidence is None:
        return None
    return _differences(outcome, unknown(outcome))


def unknown(outcome: Outcome) -> float:
    """The share of the step of which it is said that nobody knows (0-1)."""
    return outcome.evidence.attribution.get("unknown", 0.0) if outcome.evidence else 0.0


def _differences(outcome: Outcome, left: float) -> float:
    """Asked only of outcomes that hold both."""
    told = outcome.evidence.reasons if outcome.evidence else {}
    truth = outcome.truth or {}
    each = (told.get(does, 0.0) - truth.get(bucket, 0.0) for bucket, does in DOES.items())
    return max(over if over > 0 else max(0.0, -over - left) for over in each)


def accounted(found: Attribution) -> Iterator[str]:
    """The section of the page."""
    yield from ("## Attribution", "")
    yield f"Of {found.count} jobs the emulated device gave its own account, to the nanosecond. In"
    yield f"{found.within} no share is off by more than {percent(ALLOWED)} of the step; the worst"
    yield f"is off by {percent(found.worst, 1)}. A share of {percent(found.unknown, 1)} was left"
    yield f"unknown on average, {percent(found.unknown_most, 1)} at most: what is said to be"
    yield "unknown is no error here as long as the device's account lies between. Were it one, the"
    yield f"worst would be off by {percent(found.told_worst, 1)}."
    yield ""


def validity(pairs: Sequence[Pair], real: Mapping[str, Outcome]) -> Iterator[str]:
    """Shares on the emulated device beside those of the same job on a real GPU, by case; ``real``
    are the latter, by the case's id."""
    pairs = [pair for pair in pairs if pair[1].evidence]
    both = [(case, one, real[case.id]) for case, one in pairs if case.id in real]
    yield from ("## Validity of the emulated device", "")
    if not both:
        yield f"**No GPU was at hand: none of these {len(pairs)} emulated jobs ran on a real one.**"
        yield "So nothing is known of how far the emulated device's shares are a GPU's, and no"
        yield "number of mode `emulated` is one of a GPU."
        yield ""
        return
    if len(pairs) > len(both):
        yield f"{len(pairs) - len(both)} of {len(pairs)} emulated jobs ran on no real GPU."
    yield "Shares of the step, emulated / real, as whyidle attributes both:"
    yield ""
    shown = [name for name in BUCKETS if any(_share(o, name) for _, *two in both for o in two)]
    yield f"| case | {' | '.join(shown)} | largest difference |"
    yield "|---" * (len(shown) + 2) + "|"
    for case, *two in both:
        shares = [[_share(outcome, name) for outcome in two] for name in shown]
        cells = (f"{percent(emulated)} / {percent(gpu)}" for emulated, gpu in shares)
        most = max(abs(emulated - gpu) for emulated, gpu in shares)
        yield f"| {case.id} | {' | '.join(cells)} | {percent(most, 1)} |"
    yield ""


def _share(outcome: Outcome, bucket: str) -> float:
    return outcome.evidence.attribution.get(bucket, 0.0) if outcome.evidence else 0.0
