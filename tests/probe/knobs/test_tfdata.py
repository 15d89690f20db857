"""Which functions several threads of tf.data may call. Real pipelines: tests/with_tensorflow."""

import random
import threading

import numpy as np
import pytest

from whyidle.probe.knobs import tfdata

FACTOR, TABLE = 3, {"a": 1}
OPEN = open(__file__, encoding="utf-8")  # noqa: SIM115, PTH123
OPEN.close()
GENERATOR = np.random.default_rng(1)
NUMBERS = random.Random(1)


def read(i):
    return OPEN.read(i)


def draw(i):
    return GENERATOR.normal() + i


def shuffle(i):
    return NUMBERS.random() + i


def iterate(i):
    return next(RUNNING) + i


RUNNING = (number for number in range(3))


def compute(i):
    return FACTOR * i + TABLE["a"] + len(threading.enumerate())


@pytest.mark.parametrize("function", [read, draw, shuffle, iterate])
def test_a_function_that_uses_what_threads_would_share_is_left_alone(function):
    assert "threads would share" in tfdata.explain_unsafe(function)
    assert "threads would share" in tfdata.explain_unsafe(lambda i: function(i + 1))


def test_a_closure_is_looked_into():
    numbers = random.Random(2)
    assert "numbers" in tfdata.explain_unsafe(lambda i: numbers.random() + i)


def test_other_functions_may_be_called_by_several_threads():
    assert tfdata.explain_unsafe(compute) == ""
    assert tfdata.explain_unsafe(lambda i: compute(i + 1)) == ""
    assert tfdata.explain_unsafe(len) == ""


def test_a_function_that_calls_itself_ends():
    def recurse(i):
        return recurse(i - 1) if i else 0

    assert tfdata.explain_unsafe(recurse) == ""
