"""For which kinds of recordings each fix is meant."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from whyidle import catalog
from whyidle.model.recording import Kind

OF_TRAINING = re.compile(r"gradient|optimizer step|backward|checkpoint|micro-?batch", re.IGNORECASE)
ALSO_WITHOUT = {
    "autocast": "half precision speeds up inference; its gradient scaler is left out there",
    "compile-step": "watched jobs only, whose step it finds",
    "overlap-experts": "engines overlap two batches, too",
    "larger-batch": "worded anew where nothing is learned",
    "evaluate-without-gradients": "an evaluation is what it is for",
}
"""fixes that speak of training and are meant for other recordings too, and why"""


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("name", sorted(catalog.load_fixes()))
def test_what_only_training_has_is_advised_in_training_only(name, kind):
    fix = catalog.load_fixes()[name]
    if kind == "graph_capture":
        assert kind not in fix.kinds
    elif kind in ("training", "warm_up"):
        assert kind in fix.kinds
    else:
        speaks = OF_TRAINING.search(f"{fix.title} {fix.doc}") and name not in ALSO_WITHOUT
        assert (kind not in fix.kinds) or not speaks


def test_no_exception_is_in_vain():
    fixes = catalog.load_fixes()
    assert all(OF_TRAINING.search(f"{fixes[n].title} {fixes[n].doc}") for n in ALSO_WITHOUT)
