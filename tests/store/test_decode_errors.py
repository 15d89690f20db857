"""What a decoder says of a broken document is told in sentences."""

import pytest

from whyidle.errors import StoreError
from whyidle.store.document import read_diagnosis


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"schema": "whyidle/diagnosis/1"}', "The required field `run` is missing."),
        ('{"schema": "whyidle/diagnosis/1", "x": 1}', "It contains unknown field `x`."),
    ],
)
def test_a_broken_diagnosis_is_told_in_a_sentence(tmp_path, text, why):
    (tmp_path / "why.json").write_text(text)
    with pytest.raises(StoreError) as raised:
        read_diagnosis(tmp_path / "why.json")
    assert raised.value.why == why
