"""Generators that batches are taken from prepare data; those that train or model do not."""

from dataclasses import replace

import pytest

from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

SOURCE = """\
def bag(document):
    return [float(word) for word in document]


def batches(size):
    for start in range(0, 99, size):
        yield [bag(d) for d in DOCUMENTS[start : start + size]]


@contextlib.contextmanager
def timed():
    yield


def train():
    for batch in batches(32):
        yield step(batch)
"""
FILE = "/job/main.py"
LOOP = f"{FILE}(17): train"
BAG = f"{FILE}(2): bag;{FILE}(7): batches;{LOOP}"
MODEL = "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py(1751): _call_impl"


def job(stack, source=SOURCE, around=LOOP):
    """60 ms in these lines, and 30 of training, in each step."""
    guest = RecordedJob()
    for _ in range(30):
        guest.python(stack, ms(60))
        guest.backward(around, ms(25))
        guest.step(around, ms(5))
    return replace(guest.timeline(), sources={FILE: source})


def prepared(*args, **kwargs):
    facts = Facts(job(*args, **kwargs))
    return facts.share_of(facts.time_of("preprocess"))


def test_a_generator_of_batches_prepares_data():
    assert prepared(BAG) == pytest.approx(2 / 3, abs=0.05)


@pytest.mark.parametrize(
    ("stack", "source"),
    [
        (LOOP, SOURCE),  # trains and yields its results
        (f"{FILE}(12): timed;{LOOP}", SOURCE),  # begins and ends a block
        (f"{FILE}(7): batches;{MODEL};{LOOP}", SOURCE),  # a part of the model
        (BAG, SOURCE.replace("yield", "return")),
        (BAG, ""),  # the source is not known
        (BAG, "def broken(:  # yield"),
    ],
)
def test_other_functions_do_not(stack, source):
    assert prepared(stack, source=source) == 0.0


def test_its_work_is_named_with_its_line():
    found = diagnose_job([job(BAG)]).findings[0]
    assert found.cause == "heavy-cpu-transform"
    assert found.where[0].line == 2
    assert "main.py:2 (return [float(word) for word in document])" in found.headline
    assert found.removal.high == pytest.approx(3.0, rel=0.1)
    assert {fix.fix for fix in found.fixes} >= {"whole-arrays", "transforms-in-workers"}
