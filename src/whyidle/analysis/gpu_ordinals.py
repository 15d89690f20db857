"""Which GPU a process means by its own number of it.

CUDA numbers what a process sees from 0, so the number alone tells nothing where a launcher shows
each rank another GPU: ``CUDA_VISIBLE_DEVICES`` of the process itself is read first, with indices
or (cut) UUIDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from whyidle.model.process_facts import ProcessFacts
from whyidle.model.telemetry import signal_key


def numbered_gpu(
    process: ProcessFacts, gpus: Sequence[str], facts: Mapping[str, str]
) -> str | None:
    """The GPU (as subject) that a process computes on; None where that is not told.

    Args:
        process: what the process said of itself.
        gpus: every GPU that was read.
        facts: what is known of them, by key.
    """
    environment = process.environment
    number = _device_ordinal(process.device_index, environment.get("LOCAL_RANK"))
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if number is None or process.device == "cpu":
        return None
    if listed is None:
        return _single_gpu(
            gpu for gpu in gpus if facts.get(signal_key("cuda_ordinal", gpu)) == str(number)
        )
    words = [word.strip() for word in listed.split(",")]
    if len(words) == 1:  # by its local rank it may be any, but it sees only this one
        number = 0
    return _single_gpu(_gpus_named(words[number], gpus, facts)) if number < len(words) else None


def _device_ordinal(index: int | None, local_rank: str | None) -> int | None:
    """The device's, else the place in its host, by which scripts choose their device."""
    if index is not None:
        return index
    return int(local_rank) if local_rank and local_rank.isdigit() else None


def _gpus_named(word: str, gpus: Sequence[str], facts: Mapping[str, str]) -> list[str]:
    """GPUs by index or UUID. Indices are the driver's, unless cards of different make are numbered
    by their speed. In MIG mode a program sees one slice of a card, which is read alone."""
    if not word.isdigit():
        return [
            gpu for gpu in gpus if word and facts.get(signal_key("uuid", gpu), "").startswith(word)
        ]
    if facts.get("cuda_order_doubt"):
        return []
    return [gpu for gpu in gpus if gpu.partition(".")[0] == f"gpu{word}"]


def _single_gpu(found: Iterable[str]) -> str | None:
    """The one that there is; None where there are several or none."""
    every = list(found)
    return every[0] if len(every) == 1 else None
