"""Advice on copies between host and device."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import advice
from whyidle.model.proof_facts import TransferFacts


def _narrow(proof: Proof) -> str | None:
    kind = proof.get_facts(TransferFacts).type
    narrow = "uint8, normalised on the device" if kind == "float images" else "32 bits"
    return f"send {kind} as {narrow}" if kind else None


def _packed(proof: Proof) -> str | None:
    packed = (
        "collate small tensors into one, send it once, and split it on the device; create "
        "constants and random numbers with device=..."
    )
    return packed if proof.get_facts(TransferFacts).fragmented else None


def _read_less(proof: Proof) -> str:
    place = proof.where[0] if proof.where else None
    where = f" at {place.file}:{place.line}" if place and place.file else ""
    return (
        f"reduce on the device before reading{where} (argmax, sums, metrics), read every 10th "
        "step, or copy into pinned memory with non_blocking=True and read it a step later"
    )


ADVICE = (
    advice(
        *("narrow-batches", "oversized-or-fragmented-h2d"),
        title="Send batches in the narrowest type that holds them",
        doc="Send values in fewer bytes, and convert on the device. Only the program knows "
        "whether its values fit.",
        summary=_narrow,
        consent="numerics",
        risk="values outside the narrower type are destroyed; mind the order of normalising",
    ),
    advice(
        *("packed-copies", "oversized-or-fragmented-h2d"),
        title="Send one tensor instead of many small ones",
        doc="Collate a batch into few contiguous tensors and send them at once; make constants, "
        "masks and noise on the device.",
        summary=_packed,
        risk="views into one buffer share its lifetime",
    ),
    advice(
        *("read-back-less", "large-d2h-copy"),
        title="Read less back from the device",
        doc="Reduce on the device, or copy asynchronously. Only the author knows what is needed on "
        "the host.",
        summary=_read_less,
        risk="a non_blocking copy to the host holds garbage until its event has passed",
    ),
)
