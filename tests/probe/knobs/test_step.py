"""Which training functions may be compiled."""

import random

import numpy as np
import pytest

from whyidle.probe.knobs.step import has_effects

history, count = [], 0


def pure(w, x):
    """Constants of NumPy and a list of its own are nothing that a trace would miss."""
    parts = [w * part for part in (x, np.pi)]
    return {"loss": sum(parts), "count": count}


def prints(w, x):
    print(w)
    return w * x


def keeps(w, x):
    history.append(w * x)
    return w


def counts(w, x):
    global count  # noqa: PLW0603 - what is tested
    count += 1
    return w * x


def assigns(w, x):
    w.last = x
    return w


def draws(w, x):
    return w * np.random.normal()


def chooses(w, x):
    return w if random.random() < 0.5 else x


def hides(w, x):
    def show(y):
        print(y)

    show(w)
    return w * x


def reads(w, x):
    return (w * x).item()


@pytest.mark.parametrize(
    ("function", "expected"),
    [(pure, False)]
    + [(each, True) for each in (prints, keeps, counts, assigns, draws, chooses, hides, reads)],
)
def test_a_function_with_effects_of_its_own_is_not_compiled(function, expected):
    assert has_effects(function.__code__, globals()) == expected
