"""Published scaling tables are predicted within the errors that published predictors have."""

import runpy
from pathlib import Path

import pytest

published = runpy.run_path(str(Path(__file__).parents[2] / "bench/scale/published.py"))
FROM_ONE_GPU, FROM_ONE_NODE = 0.2, 0.14
"""14 % is the largest error that predictors published; the tables do not tell what ranks wait for
each other, which is missing from one GPU's step, and in part from one node's"""


@pytest.mark.parametrize("table", published["TABLES"], ids=lambda table: table.name)
def test_a_table_is_predicted(table):
    for _, one, node, truth in published["errors"](table):
        assert one == pytest.approx(truth, rel=FROM_ONE_GPU)
        assert node is None or node == pytest.approx(truth, rel=FROM_ONE_NODE)


def test_a_guess_that_ranks_cost_nothing_is_worse():
    """Where gradients are exchanged after the backward pass, the exchange decides."""
    table = next(each for each in published["TABLES"] if not each.overlaps)
    for ranks, one, _, truth in published["errors"](table):
        if ranks > published["NODE"]:
            free = published["step_s"](table, 1)
            assert abs(one / truth - 1) < abs(free / truth - 1) / 2
