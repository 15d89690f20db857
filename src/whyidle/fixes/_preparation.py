"""Names ``whyidle prepare`` with the size of what it would write, by the batches of the run."""

from __future__ import annotations

from whyidle.model.number_text import format_bytes
from whyidle.model.proof_facts import InputFacts


def describe_preparation(facts: InputFacts) -> str:
    """The command, and about how many bytes it writes, as far as the run shows them."""
    size = f" (about {format_bytes(facts.epoch_bytes)})" if facts.epoch_bytes else ""
    return f"whyidle prepare{size}"
