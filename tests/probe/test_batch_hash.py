"""A hash of a batch changes with its numbers and their order, and is cheap for large ones."""

import numpy as np

from whyidle.probe.trial.batch_hash import hash_arrays

ROWS = np.arange(12.0, dtype="float32").reshape(4, 3)


def test_the_same_numbers_have_the_same_hash():
    assert hash_arrays([ROWS, ROWS[::2]]) == hash_arrays([ROWS.copy(), ROWS[::2].copy()])
    words = [np.array(["a", "bc"], dtype=object), np.array(["".join("ab"), "bc"], dtype=object)]
    assert hash_arrays(words[:1]) != hash_arrays(words[1:])
    assert hash_arrays([]) is None


def test_other_rows_shapes_or_orders_have_another():
    others = [[ROWS[::-1]], [ROWS.T], [ROWS + 1], [ROWS.reshape(3, 4)], [ROWS, ROWS]]
    assert len({hash_arrays(each) for each in ([ROWS], *others)}) == len(others) + 1


def test_an_exchange_of_rows_of_a_large_batch_shows():
    large = np.random.default_rng(1).random((64, 100_000), dtype="float32")
    exchanged = large[[1, 0, *range(2, 64)]]
    assert hash_arrays([large]) != hash_arrays([exchanged])
