"""Reads the fields of ledgers: times, states, durations, counts."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Final

from whyidle.model.fleet_rows import WHOLE, JobState

_STATES: Final[dict[str, JobState]] = {
    "pending": "pending", "configuring": "pending", "queued": "pending",
    "running": "running", "completing": "running", "suspended": "running", "resizing": "running",
    "stopped": "running", "signaling": "running", "stage_out": "running",
    "completed": "completed", "pass": "completed", "passed": "completed", "succeeded": "completed",
    "success": "completed", "terminated": "completed",
    "failed": "failed", "fail": "failed", "out_of_memory": "failed", "error": "failed",
    "timeout": "timeout", "deadline": "timeout",
    "cancelled": "cancelled", "canceled": "cancelled", "killed": "cancelled",
    "revoked": "cancelled",
    "preempted": "preempted", "evicted": "preempted",
    "node_fail": "cluster", "boot_fail": "cluster", "launch_failed": "cluster",
    "requeued": "cluster",
}  # fmt: skip
"""words of Slurm, Philly, Helios, Acme, Kubernetes and Ray, in lower case. A requeued attempt ran
and was ended by the cluster; the job that waits again has a row of its own, which is pending."""
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)i?B?[nc]?", re.IGNORECASE)
_CLOCK: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_MIG: Final = re.compile(r"(?:.*[_-])?(([1-7])g\.\d+gb(?:\+\S+)?)", re.IGNORECASE)
"""``1g.5gb``, ``a100_1g.5gb`` as Slurm types it, ``NVIDIA-A100-SXM4-40GB-MIG-1g.5gb`` of a node"""


def parse_state(text: str) -> JobState:
    """The state that a scheduler's word means; ``CANCELLED by 1001`` is cancelled."""
    word = text.strip().partition(" ")[0].rstrip("+").lower()
    return _STATES.get(word, "unknown")


def parse_time(text: str, *, repeated: bool = False) -> int | None:
    """Milliseconds of a time in ISO form (local time unless it has a zone) or a number of seconds
    or milliseconds since the epoch; None if there is none. A local time that the clock showed
    twice, in the night when daylight saving ends, is the first, or the second if ``repeated``.

    Raises:
        ValueError: it is no time.
    """
    text = text.strip()
    if text.lower() in ("", "unknown", "none", "n/a", "null", "nan", "na"):
        return None
    try:
        number = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("/", "-"))
        number = moment.replace(fold=int(repeated)).timestamp()
    if math.isnan(number):
        return None
    milliseconds = number if number > 1e11 else number * 1000
    if not 0 <= milliseconds < 253_402_300_800_000:  # the year 10000
        raise ValueError(text)
    return round(milliseconds)


def mig_profile(text: str | None) -> str | None:
    """The MIG profile that a type of GPUs or a product names, such as ``1g.5gb``."""
    matched = _MIG.fullmatch(text) if text else None
    return matched[1] if matched else None


def mig_milli(profile: str | None) -> int:
    """The share of a card's multiprocessors that a MIG slice has, in sevenths; else a whole one."""
    matched = _MIG.fullmatch(profile) if profile else None
    return round(int(matched[2]) * WHOLE / 7) if matched else WHOLE


def slices_of_card(profile: str | None) -> int:
    """How many slices of a MIG profile one card is divided into: seven compute slices, less what
    remains; 1 without a profile."""
    matched = _MIG.fullmatch(profile) if profile else None
    return 7 // int(matched[2]) if matched else 1


def parse_number(text: str) -> float | None:
    """A number that is not negative; None if there is none.

    Raises:
        ValueError: it is no such number.
    """
    if text.strip().lower() in ("", "none", "n/a", "null", "nan", "na", "unlimited"):
        return None
    number = float(text)
    if not 0 <= number < 1e15:
        raise ValueError(text)
    return number


def parse_size(text: str) -> int | None:
    """Bytes of a size such as ``1000M`` or ``8Gi``; None if it is none."""
    matched = _SIZE.fullmatch(text.strip())
    return round(float(matched[1]) * _UNITS.get(matched[2].upper(), 1)) if matched else None


def parse_clock(text: str) -> float | None:
    """Seconds of a duration such as ``1-02:03:04`` or ``03:04.5``; None if it is none."""
    matched = _CLOCK.fullmatch(text.strip())
    if matched is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in matched.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
