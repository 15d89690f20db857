"""Words a diagnosis whose steps were not seen. It was made of windows of one second, so that
whatever it says of a step holds for a second."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from whyidle.model.diagnosis import Diagnosis, Finding

_WORDS: Final = (
    (re.compile(r"\bper step\b"), "per second"),
    (re.compile(r"\b(share|% ) of (the )?step\b"), r"\1 of the time"),
    (re.compile(r"\bof the step\b"), "of the time"),
    (re.compile(r"\b(in|for) every step\b"), r"\1 every second"),
)


def word_by_second(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis without steps, and with times per second."""
    unknown = ("mean_s", "p50_s", "p95_s", "p99_s", "samples_per_s", "detected_by", "confidence")
    none: dict[str, Any] = dict.fromkeys(unknown)
    steps = msgspec.structs.replace(diagnosis.steps, count=0, warmup=0, **none)
    verdict = diagnosis.verdict
    return msgspec.structs.replace(
        diagnosis,
        steps=steps,
        verdict=msgspec.structs.replace(verdict, headline=_word(verdict.headline)),
        findings=[_word_finding(finding) for finding in diagnosis.findings],
        detail=msgspec.structs.replace(diagnosis.detail, step_times_s=[], steady=[]),
    )


def _word_finding(finding: Finding) -> Finding:
    evidence = [
        msgspec.structs.replace(one, quantity=_word(one.quantity)) for one in finding.evidence
    ]
    headline = _word(finding.headline)
    return msgspec.structs.replace(finding, headline=headline, evidence=evidence)


def _word(text: str) -> str:
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text
