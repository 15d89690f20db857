"""Batches that are wider than necessary, or sent in many small pieces."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.device.copies import BIG_BYTES, Copies, copy_place, find_copies, pinned_gbs
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.analysis.steps.host_step_time import call_gap_s, pace_s
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.proof_facts import TransferFacts
from whyidle.model.timeline import Detail

SMALL_BYTES = 65_536
"""at 12 GB/s such a copy moves data for 5 us, no longer than its call takes"""
MANY = 20
"""small copies per step from which packing them is worthwhile"""
SMALLER = {"double": 0.5, "long": 0.5, "long int": 0.5, "int64": 0.5, "float64": 0.5}
"""share of the bytes that 32-bit types save"""
FLOATS = ("double", "float64")
"""of these, types that the device may convert"""
IMAGE = 0.75
"""share of the bytes that float images save when sent as uint8"""


@cause(
    "Copies to the device are too large or too many",
    bucket="transfer",
    needs=("device_events", "runtime_calls", "steps"),
)
def oversized_or_fragmented_h2d(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Each step sends dozens of small tensors one by one, or needlessly wide types (64 bits, float
    images).

    Why it costs
    ------------
    Every copy has a fixed cost on host and device, and every byte takes time on the link.

    How it is detected
    ------------------
    Small copies: a step sends at least 20 tensors of at most 64 KiB while the device is idle. The
    prediction packs them into one copy; its upper bound also saves the host's work between them.
    Wide copies: the operator of a copy of at least 1 MB recorded a 64-bit type or a float image.
    Only the exposed part counts. The expected saving is half of that, or all of it if the device
    converts 64-bit floats on arrival, because then the job does not need them.

    What looks alike
    ----------------
    For large copies of data that needs its type, see ``pageable-h2d-copy`` and
    ``blocking-h2d-copy``. Small copies behind a full queue cost nothing. Only the author knows
    whether a narrower type suffices, so whyidle changes no type without consent.

    What to do
    ----------
    Collate into few tensors. Create masks, positions and noise on the device. Send 8-bit images and
    32-bit indices, and convert them on the device.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Create tensors directly on the target device".
    """
    copies = find_copies(facts, "any")
    if not len(copies) or copies.total_share < LEAST_SHARE:
        return None
    options = [_fragmented_option(facts, copies), _oversized_option(facts, copies)]
    best = max((o for o in options if o), key=lambda option: option.high, default=None)
    if best is None or best.high < LEAST_SHARE:
        return None
    return Proof(
        headline=best.headline,
        low=best.low,
        high=best.high,
        predicted=predict_removal(best.low, best.hopeful, best.method, best.expected),
        evidence=(
            make_evidence("copies per step", len(copies) / facts.step_count, None),
            make_evidence("bytes per step", float(copies.sizes.sum()) / facts.step_count, "bytes"),
            make_evidence("exposed time of all copies, share of step", copies.total_share, "ratio"),
            make_evidence("of it, these copies", best.high, "ratio"),
        ),
        confidence=0.6,
        where=tuple(place for place in [copy_place(facts, best.rows)] if place),
        facts=TransferFacts(fragmented=best.fragmented, type=best.type),
    )


@dataclass(frozen=True, slots=True)
class _Option:
    headline: str
    low: float
    high: float
    expected: float
    hopeful: float
    method: str
    rows: NDArray[np.int64]
    fragmented: bool
    type: str = ""


def _fragmented_option(facts: Facts, copies: Copies) -> _Option | None:
    small = copies.sizes <= SMALL_BYTES
    small &= copies.sizes > 0
    count = int(small.sum())
    if count < MANY * facts.step_count:
        return None
    part = float(copies.seconds[small].sum() / max(copies.seconds.sum(), 1e-12))
    share = copies.exposed * part + (copies.calls + copies.refill) * count / len(copies)
    remaining = facts.step_count / count
    took = float(copies.sizes[small].sum()) / (pinned_gbs(facts)[0] * 1e9)
    packed = min(took, float(copies.seconds[small].sum())) / facts.scope_s
    high = max(0.0, share * (1.0 - remaining) - packed)
    between = copies.exposed * part + _idle_between_copies(facts, copies.rows[small])
    hopeful = max(high, between * (1.0 - remaining))
    expected = min((high + hopeful) / 2, _host_limit(facts, copies.rows[small]))
    return _Option(
        f"{count / facts.step_count:.0f} small copies per step go to the GPU one by one",
        min(high / 2, expected),
        high,
        expected,
        hopeful,
        "fixed cost of the copies, packed into one",
        copies.rows[small],
        True,
    )


def _host_limit(facts: Facts, rows: NDArray[np.int64]) -> float:
    """Share of the step that can be gained before the host, without its work between copies,
    becomes slower than the device."""
    calls = facts.launches.call[rows]
    saved_s = call_gap_s(facts, calls[calls >= 0]) * max(len(rows) / facts.step_count - 1.0, 0.0)
    return max(0.0, 1.0 - max(pace_s(facts) - saved_s, 0.0) / facts.step_s)


def _idle_between_copies(facts: Facts, rows: NDArray[np.int64]) -> float:
    device = facts.device
    follow = np.flatnonzero(np.diff(rows) == 1)
    between = device.start[rows[follow + 1]] - device.end[rows[follow]]
    return float(np.maximum(between, 0).sum()) / max(facts.scope.total, 1)


def _oversized_option(facts: Facts, copies: Copies) -> _Option | None:
    saved = np.zeros(len(copies))
    types = [("", "")] * len(copies)
    for i in np.flatnonzero(copies.sizes >= BIG_BYTES):
        saved[i], types[i] = _narrowing_saving(facts, int(copies.rows[i]))
    if not saved.any():
        return None
    ratio = float((saved * copies.seconds).sum() / copies.seconds.sum())
    kind = types[int(np.argmax(saved * copies.seconds))][0]
    high = copies.exposed * ratio
    converting = _conversion_share(facts, {each for each in types if each[0] in FLOATS})
    hopeful = min(1.0, high + converting)
    return _Option(
        f"Batches go to the GPU as {kind}, wider than they may need to be",
        0.0,
        high,
        hopeful if converting else hopeful / 2,
        hopeful,
        "bytes that a narrower type saves x exposed share, and their conversion",
        copies.rows[saved > 0],
        False,
        kind,
    )


def _conversion_share(facts: Facts, sent: set[tuple[str, str]]) -> float:
    rows = facts.kernels[facts.group[facts.kernels] == "copy"]
    ops = facts.launching_op[rows]
    details = np.where(ops >= 0, facts.timeline.host.detail[np.maximum(ops, 0)], -1)
    every = facts.timeline.details
    known = [int(i) for i in np.unique(details) if i >= 0 and _is_conversion(every[i], sent)]
    mine = rows[np.isin(details, known)]
    return float(facts.durations_s(mine).sum()) / max(facts.scope_s, 1e-12)


def _is_conversion(detail: Detail, sent: set[tuple[str, str]]) -> bool:
    """Whether a copy on the device reads such a tensor and writes another type."""
    given = list(zip(_decode_json(detail.types), _decode_json(detail.dims), strict=False))
    tensors = [(str(kind), json.dumps(shape)) for kind, shape in given if shape]
    if len(tensors) > 1:  # what a copy writes is named first
        return tensors[1] in sent and tensors[0][0] != tensors[1][0]
    return bool(tensors) and tensors[0] in sent


def _narrowing_saving(facts: Facts, row: int) -> tuple[float, tuple[str, str]]:
    """The share of a copy's bytes that a narrower type saves, its current type and its shape."""
    op = facts.launching_op[row]
    detail = int(facts.timeline.host.detail[op]) if op >= 0 else -1
    if detail < 0:
        return 0.0, ("", "")
    types = _decode_json(facts.timeline.details[detail].types)
    shapes = _decode_json(facts.timeline.details[detail].dims)
    for kind, shape in zip(types, shapes, strict=False):
        if kind in SMALLER:
            return SMALLER[kind], (str(kind), json.dumps(shape))
        sizes = shape if kind == "float" and isinstance(shape, list) else []
        if len(sizes) == 4 and sizes[1] in (1, 3, 4) and sizes[3] > 8:
            return IMAGE, ("float images", json.dumps(shape))
    return 0.0, ("", "")


def _decode_json(text: str) -> list[object]:
    values = json.loads(text) if text else []
    return values if isinstance(values, list) else []
