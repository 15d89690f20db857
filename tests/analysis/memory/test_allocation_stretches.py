"""Peaks from the order of allocations, on passes made by hand."""

import pytest

from whyidle.analysis.memory.allocation_stretches import AllocationOrder, extrapolate_stretches
from whyidle.model.memory_look import RecordedPass

MODULES = (("Net", "Net"), ("a", "Linear"), ("b", "Linear"))


def recorded(batch, temporary=100):
    """Two modules: each keeps 10 bytes a sample; ``a`` needs as much again while it runs. The
    backward pass of ``b`` takes ``temporary`` bytes whatever the batch."""
    kept = 10 * batch
    rows = (
        (10, 1, kept), (11, 2, kept), (12, 2, -kept),  # a: what it keeps, and for itself
        (20, 3, kept),  # b
        (30, 4, temporary), (31, 4, -temporary), (32, 3, -kept),
        (40, 1, -kept),
    )  # fmt: skip
    marks = ((1, 25, 0, 0), (10, 15, 0, 1), (20, 24, 0, 2), (30, 30, 1, 2), (40, 40, 1, 1))
    saved = ((1, kept, 1), (3, kept, 2))
    return AllocationOrder(RecordedPass(batch, rows, marks, saved, outputs=((3, 2),)), MODULES)


def test_the_peak_of_a_stretch_is_what_it_reaches():
    one = recorded(1)
    assert max(one.stretch_levels()) == 10 + 10 + 100
    assert one.activation_bytes() == {1: 10, 2: 10}
    assert one.forward_end == 25


@pytest.mark.parametrize(("batch", "peak"), [(1, 120), (4, 180), (100, 2100)])
def test_each_stretch_grows_for_itself(batch, peak):
    levels, _ = extrapolate_stretches(recorded(1), recorded(2), batch)
    assert max(levels) == peak == max(recorded(batch).stretch_levels())


def test_a_line_through_the_two_peaks_would_miss_it_where_the_peak_moves():
    # at one and two samples the temporary of the update-like stretch rules, later the activations
    low, high = (max(recorded(n, temporary=1000 // n).stretch_levels()) for n in (1, 2))
    assert low + (high - low) * 99 < 0  # the line falls
    levels, _ = extrapolate_stretches(recorded(1, 1000), recorded(2, 500), 100)
    assert max(levels) >= 2000


def test_a_recomputed_module_keeps_nothing_until_its_backward_pass():
    one, chosen = recorded(4, temporary=100), [1]
    # while b runs backwards only its own is there, then a makes its own again, with its temporary
    assert list(one.stretch_levels(chosen)) != list(one.stretch_levels())
    assert max(one.stretch_levels(chosen)) == 40 + 100
    assert one.stretch_levels(chosen)[-1] == 80


def test_a_result_is_not_given_back():
    one = recorded(4)
    assert list(one.stretch_levels([2])) == list(one.stretch_levels())  # b keeps only its result


def test_passes_that_went_different_ways_are_not_compared():
    other = recorded(2)
    short = AllocationOrder(
        RecordedPass(2, other.recorded.rows, other.recorded.marks[:-1]), MODULES
    )
    assert extrapolate_stretches(recorded(1), short, 4) is None
