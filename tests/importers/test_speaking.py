"""For which time samples speak."""

import numpy as np

from whyidle.importers._speaking import dated
from whyidle.importers.probe import SAMPLE, SPAN


def looks(*rows):
    """Samples at a moment (ms), got so many ms late, with a stack."""
    made = np.zeros(len(rows), SAMPLE)
    for row, (time, late, stack) in zip(made, rows, strict=True):
        row["time"], row["held"], row["stack"], row["thread"] = time * 10**6, late * 1000, stack, 1
    return made


def calls(*rows):
    made = np.zeros(len(rows), SPAN)
    for row, (begin, end) in zip(made, rows, strict=True):
        row["start"], row["end"], row["thread"] = begin * 10**6, end * 10**6, 1
    return made


NEXT = ["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"]


def test_a_late_look_speaks_for_the_moment_that_it_is_from():
    """Wanted between calls, got inside the next: what was seen there did not go on before."""
    moved = dated(calls((20, 30), (50, 60)), looks((45, 8, 7)), NEXT)
    assert moved["time"].tolist() == [53 * 10**6]
    assert moved["held"].tolist() == [0]
    assert moved["stack"].tolist() == [7]


def test_a_late_look_between_the_same_calls_still_says_that_python_ran():
    samples = looks((35, 8, 7), (52, 4, 7))
    assert (dated(calls((20, 30), (50, 60)), samples, NEXT) == samples).all()
