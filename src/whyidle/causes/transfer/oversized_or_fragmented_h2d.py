"""Batches that are larger than their information, or sent in many small pieces."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.copies import BIG_BYTES, Copies, copy_place, find_copies, pinned_gbs
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.rank_pacing import between_s, pace_s
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import TransferFacts
from whyidle.model.timeline import Detail

LEAST_SHARE = 0.01
"""share of the step below which the copies are not worth a word"""
SMALL_BYTES = 65_536
"""at 12 GB/s such a copy moves data for 5 us, no longer than its call takes"""
MANY = 20
"""small copies per step from which on packing them is worth its trouble"""
SMALLER = {"double": 0.5, "long": 0.5, "long int": 0.5, "int64": 0.5, "float64": 0.5}
"""how much of the bytes a type loses by becoming 32 bits wide"""
FLOATS = ("double", "float64")
"""of these, types that the device converts to what could have been sent"""
IMAGE = 0.75
"""what float images lose when sent as the bytes that they were decoded to"""


@cause(
    "Copies to the device that are too large or too many",
    bucket="transfer",
    needs=("device_events", "runtime_calls", "steps"),
)
def oversized_or_fragmented_h2d(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Each step sends dozens of small tensors one by one, or sends numbers in a wider type than they
    need: float64, int64, images as float32.

    Why it costs
    ------------
    Every copy has a fixed price on host and device, and every byte takes time on the link.

    How it is detected
    ------------------
    Fragmented: at least twenty copies per step of at most 64 KiB, with the device idle during
    them and their calls; packed into one they cost what one does and what their bytes take at the
    rate of pinned memory, and at best the host's work between them is saved as well; no more is
    expected than a host that is spared that work keeps up with. Oversized: copies of a megabyte
    and more whose operator recorded a 64-bit type, or a float image (four dimensions, one, three
    or four channels); only the exposed part counts. Half of it is expected, but all where the
    device converts 64-bit floats of that shape as they come: then the job itself does without
    their width, and the conversion is saved as well.

    What looks alike
    ----------------
    Large copies of data that needs its width are ``pageable-h2d-copy`` or ``blocking-h2d-copy``.
    Small copies behind a full queue cost nothing. Whether values fit the smaller type is for the
    program to say, so nothing is changed without asking.

    What to do
    ----------
    Collate into few tensors and send one; make masks, positions and noise on the device; send
    8-bit images and 32-bit indices, and convert on the device.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Create tensors directly on the target device".
    """
    found = find_copies(facts, "any")
    if not len(found) or found.total_share < LEAST_SHARE:
        return None
    options = [_fragmented_option(facts, found), _oversized_option(facts, found)]
    best = max((o for o in options if o), key=lambda option: option.high, default=None)
    if best is None or best.high < LEAST_SHARE:
        return None
    return Proof(
        headline=best.headline,
        low=best.low,
        high=best.high,
        predicted=predict_removal(best.low, best.hopeful, best.method, best.expected),
        evidence=(
            make_evidence(
                "copies per step", len(found) / facts.step_count, None, samples=len(found)
            ),
            make_evidence("bytes per step", float(found.sizes.sum()) / facts.step_count, "bytes"),
            make_evidence("held up by all copies, share of step", found.total_share, "ratio"),
            make_evidence("of that by these", best.high, "ratio"),
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


def _fragmented_option(facts: Facts, found: Copies) -> _Option | None:
    small = found.sizes <= SMALL_BYTES
    small &= found.sizes > 0
    count = int(small.sum())
    if count < MANY * facts.step_count:
        return None
    part = float(found.seconds[small].sum() / max(found.seconds.sum(), 1e-12))
    share = found.exposed * part + (found.calls + found.refill) * count / len(found)
    kept = facts.step_count / count
    took = float(found.sizes[small].sum()) / (pinned_gbs(facts)[0] * 1e9)
    packed = min(took, float(found.seconds[small].sum())) / facts.scope_s
    high = max(0.0, share * (1.0 - kept) - packed)
    between = found.exposed * part + _idle_between_copies(facts, found.rows[small])
    hopeful = max(high, between * (1.0 - kept))
    expected = min((high + hopeful) / 2, _kept_up_with(facts, found.rows[small]))
    return _Option(
        f"{count / facts.step_count:.0f} small copies per step go to the GPU one by one",
        min(high / 2, expected),
        high,
        expected,
        hopeful,
        "fixed cost of the copies, packed into one",
        found.rows[small],
        True,
    )


def _kept_up_with(facts: Facts, rows: NDArray[np.int64]) -> float:
    """Share of the step that can be won before the host is slower than the device: it is spared
    what it does from one copy to the next."""
    calls = facts.launches.call[rows]
    spared = between_s(facts, calls[calls >= 0]) * max(len(rows) / facts.step_count - 1.0, 0.0)
    return max(0.0, 1.0 - max(pace_s(facts) - spared, 0.0) / facts.step_s)


def _idle_between_copies(facts: Facts, rows: NDArray[np.int64]) -> float:
    """Share of the step that the device idles between small copies that follow each other: the
    host prepares one after the other."""
    device = facts.device
    follow = np.flatnonzero(np.diff(rows) == 1)
    between = device.start[rows[follow + 1]] - device.end[rows[follow]]
    return float(np.maximum(between, 0).sum()) / max(facts.scope.total, 1)


def _oversized_option(facts: Facts, found: Copies) -> _Option | None:
    saved = np.zeros(len(found))
    types = [("", "")] * len(found)
    for i in np.flatnonzero(found.sizes >= BIG_BYTES):
        saved[i], types[i] = _narrowing_saving(facts, int(found.rows[i]))
    if not saved.any():
        return None
    ratio = float((saved * found.seconds).sum() / found.seconds.sum())
    kind = types[int(np.argmax(saved * found.seconds))][0]
    high = found.exposed * ratio
    converting = _conversion_share(facts, {each for each in types if each[0] in FLOATS})
    hopeful = min(1.0, high + converting)
    return _Option(
        f"Batches go to the GPU as {kind}, wider than they may need to be",
        0.0,
        high,
        hopeful if converting else hopeful / 2,
        hopeful,
        "bytes that a narrower type saves x exposed share, and converting them",
        found.rows[saved > 0],
        False,
        kind,
    )


def _conversion_share(facts: Facts, sent: set[tuple[str, str]]) -> float:
    """Share of the step in which the device converts tensors of some types and shapes."""
    rows = facts.kernels[facts.group[facts.kernels] == "copy"]
    ops = facts.launching_op[rows]
    details = np.where(ops >= 0, facts.timeline.host.detail[np.maximum(ops, 0)], -1)
    every = facts.timeline.details
    known = [int(i) for i in np.unique(details) if i >= 0 and _is_conversion(every[i], sent)]
    mine = rows[np.isin(details, known)]
    return float(facts.durations_s(mine).sum()) / max(facts.scope_s, 1e-12)


def _is_conversion(detail: Detail, sent: set[tuple[str, str]]) -> bool:
    """Whether a copy on the device reads such a tensor, and does not write one of its type."""
    given = list(zip(_decode_json(detail.types), _decode_json(detail.dims), strict=False))
    tensors = [(str(kind), json.dumps(shape)) for kind, shape in given if shape]
    if len(tensors) > 1:  # what a copy writes is named first
        return tensors[1] in sent and tensors[0][0] != tensors[1][0]
    return bool(tensors) and tensors[0] in sent


def _narrowing_saving(facts: Facts, row: int) -> tuple[float, tuple[str, str]]:
    """The share of a copy's bytes that a narrower type would save, its type now and its shape."""
    op = facts.launching_op[row]
    detail = int(facts.timeline.host.detail[op]) if op >= 0 else -1
    if detail < 0:
        return 0.0, ("", "")
    types = _decode_json(facts.timeline.details[detail].types)
    shapes = _decode_json(facts.timeline.details[detail].dims)
    for kind, shape in zip(types, shapes, strict=False):
        if kind in SMALLER:
            return SMALLER[kind], (str(kind), json.dumps(shape))
        if kind == "float" and _is_image(shape):
            return IMAGE, ("float images", json.dumps(shape))
    return 0.0, ("", "")


def _is_image(shape: object) -> bool:
    return isinstance(shape, list) and len(shape) == 4 and shape[1] in (1, 3, 4) and shape[3] > 8


def _decode_json(text: str) -> list[object]:
    found = json.loads(text) if text else []
    return found if isinstance(found, list) else []
