"""Signals that are facts of a process."""

from whyidle.model.process_facts import ProcessFacts
from whyidle.model.signals import FACTS, SIGNALS


def test_what_was_not_recorded_is_no_signal():
    """A fact with any other default would be a signal of every recording."""
    assert FACTS["own_process"] == "imported"
    assert {getattr(ProcessFacts(), fact) for fact in FACTS.values()} == {None}
    assert set(FACTS) <= set(SIGNALS)
