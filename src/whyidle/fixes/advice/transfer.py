"""Advice on copies between host and device."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import advice
from whyidle.model.proof_facts import TransferFacts

LEAST_EXPOSED = 0.01
"""share of the step below which there is no copy worth hiding"""


def _prefetch(proof: Proof) -> str | None:
    if proof.get_facts(TransferFacts).exposed < LEAST_EXPOSED:
        return None
    return "copy the next batch from pinned memory on a second stream during the current step"


def _narrow_types(proof: Proof) -> str | None:
    kind = proof.get_facts(TransferFacts).type
    narrow = "uint8, normalised on the device" if kind == "float images" else "32 bits"
    return f"send {kind} as {narrow}" if kind else None


def _pack_copies(proof: Proof) -> str | None:
    packed = (
        "collate small tensors into one, send it once, and split it on the device; create "
        "constants and random numbers on the device"
    )
    return packed if proof.get_facts(TransferFacts).fragmented else None


def _read_less(proof: Proof) -> str:
    place = proof.where[0] if proof.where else None
    where = f" at {place.file}:{place.line}" if place and place.file else ""
    return (
        f"reduce on the device before reading{where} (argmax, sums, metrics), read every 10th "
        "step, or copy into pinned memory without blocking and read it one step later"
    )


ADVICE = (
    advice(
        *("device-prefetch", "pageable-h2d-copy", "blocking-h2d-copy"),
        title="Copy the next batch while the current one is computed",
        doc="Copy the next batch on a second stream, from pinned memory, while the current one is "
        "computed. Worth more than pinning alone where the copy itself is long.",
        summary=_prefetch,
        risk="one more batch of device memory; a batch must not be changed while it is copied",
    ),
    advice(
        *("narrow-batches", "oversized-or-fragmented-h2d"),
        title="Send batches in the narrowest type that holds them",
        doc="Send values in fewer bytes, and convert on the device. Only the author knows whether "
        "the values fit.",
        summary=_narrow_types,
        consent="numerics",
        risk="values that do not fit the narrower type are lost; normalise after the copy",
    ),
    advice(
        *("packed-copies", "oversized-or-fragmented-h2d"),
        title="Send one tensor instead of many small ones",
        doc="Collate a batch into few contiguous tensors and send them together; create constants, "
        "masks and noise on the device.",
        summary=_pack_copies,
        risk="views into one buffer share its lifetime",
    ),
    advice(
        *("read-back-less", "large-d2h-copy"),
        title="Read less back from the device",
        doc="Reduce on the device, or copy asynchronously. Only the author knows what the host "
        "needs.",
        summary=_read_less,
        risk="the result of a non-blocking copy to the host is invalid until its event has "
        "completed",
    ),
)
