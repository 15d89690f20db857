"""Findings on repeated work and small files name `whyidle prepare` with the size of the data."""

import pytest

from whyidle.fixes.advice.input import ADVICE
from whyidle.fixes.input.cached_preprocessing import cached_preprocessing
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.proof_facts import InputFacts

GAIN = Predicted(speedup=2.0, low=1.5, high=3.0, method="test")
SHARDED = next(fix for fix in ADVICE if fix.id == "sharded-data")


@pytest.mark.parametrize("fix", [cached_preprocessing, SHARDED])
@pytest.mark.parametrize(("size", "shown"), [(43_000_000, " (about 43 MB)"), (None, "")])
def test_the_command_is_named_with_its_size(fix, size, shown):
    facts = InputFacts(epoch_bytes=size)
    proof = Proof("found", GAIN, (), facts=facts)
    assert f": whyidle prepare{shown}" in fix.decide(proof).summary
