"""Steps at the start that took most of the time are no small print."""

import pytest

from whyidle.engine.diagnose import diagnose
from whyidle.testing.builder import ms
from whyidle.testing.guest import Guest


@pytest.mark.parametrize(("slow", "told"), [(15, True), (2, False)])
def test_a_slow_start_is_told_with_its_length(slow, told):
    job = Guest()
    for number in range(60):
        job.backward("/job/train.py(20): <module>", ms(90 if number < slow else 20))
        job.step("/job/train.py(21): <module>", ms(10))
    notes = " ".join(diagnose([job.timeline()]).coverage.notes)
    assert ("the first 15 steps took 100 ms each, 53% of the time" in notes) == told
    assert ("leave them out" in notes) == told
