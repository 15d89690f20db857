"""Whether looks found the interpreter's lock taken, and which of them waited by chance."""

import numpy as np

from whyidle.importers import _lock, probe

ENGINE = "/lib/torch/autograd/graph.py(979): _engine_run_backward"
FORWARD = "/lib/torch/nn/modules/linear.py(134): forward"
OWN = "/job/train.py(9): step"


def waits(stack, us, count):
    """Looks at one place that were had so many us late."""
    samples = np.zeros(count, probe.SAMPLE)
    samples["stack"], samples["held"] = stack, us
    return samples


def test_a_lock_is_taken_where_looks_wait_longer_than_for_the_free_one_of_a_backward_pass():
    quiet = np.concatenate([waits(0, 130, 10), waits(2, 400, 30)])
    assert _lock.taken_us(quiet, [ENGINE, FORWARD, OWN, ""]) == 260


def test_waits_that_were_not_measured_make_no_operator_python():
    assert _lock.taken_us(waits(0, 0, 10), [ENGINE, ""]) == _lock.LEAST_US


def test_a_machine_that_is_slow_to_hand_locks_over_proves_nothing_sooner():
    slow = np.concatenate([waits(0, 700, 10), waits(2, 400, 30)])
    assert _lock.taken_us(slow, [ENGINE, FORWARD, OWN, ""]) == _lock.HELD_US


def test_hardly_any_look_at_a_backward_pass_tells_nothing():
    assert _lock.taken_us(waits(0, 100, 4), [ENGINE, ""]) == _lock.HELD_US


def ends(looks, false=0.0, between=True):
    stacks = [ENGINE, FORWARD, OWN, ""]
    return _lock.unseen_ends(looks, 300.0, stacks, np.full(len(looks), between), false)


def spread(first, last, count=1_000):
    """Looks at Python that waited for so long, us, and such at a backward pass."""
    made = np.concatenate([waits(0, 100, 50), waits(2, 0, count)])
    made["held"][50:] = np.linspace(first, last, count, endpoint=False)
    return made


def test_what_looks_miss_of_python_is_told_by_how_long_they_waited():
    """Stretches of 1 ms: a lock that is free takes 0.1 ms, so 0.2 of each goes unseen."""
    assert abs(ends(spread(100, 1_100)) - 0.2 / 0.8) < 0.01


def test_long_stretches_have_few_ends():
    assert ends(spread(100, 5_100)) < 0.05


def test_few_looks_tell_of_no_ends():
    assert ends(np.concatenate([waits(0, 100, 50), waits(2, 400, 4)])) == 0.0
    assert ends(np.concatenate([waits(0, 100, 4), waits(2, 400, 50)])) == 0.0


def test_looks_inside_calls_and_before_the_steps_tell_of_no_ends():
    assert ends(spread(100, 1_100), between=False) == 0.0
    early = spread(100, 1_100)
    early["time"][:50] = 1
    assert ends(early) == 0.0


def test_looks_that_waited_for_a_free_lock_are_neither_python_nor_near_its_end():
    """15 ms of Python in each hundredth step: ten looks at it, of which hardly one is near an end,
    and among a thousand at a free lock, one in a hundred that waited, each third not for long."""
    made = np.concatenate(
        [waits(0, 100, 500), waits(2, 2_000, 10), waits(2, 100, 990), waits(2, 400, 3)]
    )
    made = np.concatenate([made, waits(2, 700, 7)])
    assert ends(made) > 0.09
    assert ends(made, false=0.01) < 0.01


def test_how_often_a_free_lock_is_waited_for_is_told_by_the_backward_pass():
    def told(waited, quiet):
        looks = np.concatenate([waits(0, 400, waited), waits(0, 100, quiet), waits(2, 900, 50)])
        return _lock.false_waits(looks, 300.0, [ENGINE, FORWARD, OWN, ""])

    assert abs(told(200, 9_800) - 0.02) < 0.001
    assert 0.0 < told(0, 100) < _lock.USUAL  # none of so few may be chance
    assert told(0, 10_000) < 0.001
    assert told(0, 4) == 0.0
    assert told(20, 80) == 0.0  # somebody has it


def free(*looks):
    """Looks at a backward pass of which one in a hundred waited, and more: which found the lock
    free, without those."""
    known = [waits(0, 100, 99), waits(0, 900, 1)]
    found = _lock.found_free(np.concatenate([*known, *looks]), 300.0, [ENGINE, FORWARD, OWN, ""])
    assert found[:100].all()
    return found[100:]


def test_of_many_looks_at_an_operator_a_few_wait_by_chance():
    assert free(waits(1, 100, 49), waits(1, 900, 1)).all()


def test_a_line_at_which_more_looks_wait_than_chance_brings_has_the_lock():
    """Python that is over before it is interrupted shows at the operator after it."""
    assert not free(waits(1, 100, 55), waits(1, 900, 6)).any()
    assert not free(waits(2, 900, 1)).any()


def test_each_line_tells_of_itself():
    found = free(waits(1, 100, 49), waits(2, 900, 9), waits(1, 900, 1))
    assert found.tolist() == [True] * 49 + [False] * 9 + [True]


def test_nothing_is_known_to_be_free_where_another_thread_has_the_lock():
    contended = np.concatenate([waits(0, 100, 50), waits(0, 900, 50), waits(1, 100, 50)])
    assert not _lock.found_free(contended, 300.0, [ENGINE, FORWARD]).any()


def test_nothing_is_known_to_be_free_without_a_backward_pass():
    few = np.concatenate([waits(0, 100, 4), waits(1, 100, 50)])
    assert not _lock.found_free(few, 300.0, [ENGINE, FORWARD]).any()


def test_stacks_that_were_noted_at_calls_are_no_looks():
    noted, seen = waits(2, 0, 500), waits(2, 900, 4)
    noted["cpu"] = -1
    assert not free(noted, seen)[500:].any()


def test_what_chance_brings_is_what_a_rate_seen_before_would_bring():
    """Checked by drawing rates from what is known of them, and counts from these."""
    drawn = np.random.default_rng(0)
    rates = drawn.gamma(1 + 2, 1 / (100 + 1 / _lock.USUAL), 200_000)
    counts = drawn.poisson(40 * rates)
    for waited in (1, 2, 3):
        told = _lock.by_chance(waited, 40, known=2, among=100)
        assert abs(told - (counts >= waited).mean()) < 0.005
    assert _lock.by_chance(0, 40, known=2, among=100) == 1.0


def test_looks_at_a_free_lock_are_dated_when_they_were_had():
    looks = waits(1, 900, 2)
    moved = _lock.undelayed(looks, np.array([True, False]))
    assert moved["time"].tolist() == [900_000, 0]
    assert moved["held"].tolist() == [0, 900]
    assert looks["held"].tolist() == [900, 900]
