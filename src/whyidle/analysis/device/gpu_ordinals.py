"""Which GPU a process means by its own device number. CUDA numbers the visible devices from 0, so
``CUDA_VISIBLE_DEVICES`` of the process, with indices or (cut) UUIDs, is read first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from whyidle.model.live.telemetry import signal_key
from whyidle.model.process_facts import ProcessFacts


def numbered_gpu(
    process: ProcessFacts, gpus: Sequence[str], facts: Mapping[str, str]
) -> str | None:
    """Return the GPU of ``gpus`` (as subject) that a process computes on by its own number and the
    GPUs' ``facts``; None where unknown."""
    environment = process.environment
    number, local_rank = process.device_index, environment.get("LOCAL_RANK", "")
    if number is None and local_rank.isdigit():  # scripts choose their device by it
        number = int(local_rank)
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if number is None or process.device == "cpu":
        return None
    if listed is None:
        return _single_gpu(
            gpu for gpu in gpus if facts.get(signal_key("cuda_ordinal", gpu)) == str(number)
        )
    words = [word.strip() for word in listed.split(",")]
    if len(words) == 1:  # the local rank may be any, but only this GPU is visible
        number = 0
    return _single_gpu(_gpus_named(words[number], gpus, facts)) if number < len(words) else None


def _gpus_named(word: str, gpus: Sequence[str], facts: Mapping[str, str]) -> list[str]:
    """GPUs by index or UUID; indices are the driver's, unless mixed cards are numbered by speed."""
    if not word.isdigit():
        return [
            gpu for gpu in gpus if word and facts.get(signal_key("uuid", gpu), "").startswith(word)
        ]
    if facts.get("cuda_order_doubt"):
        return []
    return [gpu for gpu in gpus if gpu.partition(".")[0] == f"gpu{word}"]


def _single_gpu(gpus: Iterable[str]) -> str | None:
    listed = list(gpus)
    return listed[0] if len(listed) == 1 else None
