"""Whether the thread slept while the interpreter's lock was taken is told by all looks together."""

import numpy as np

from whyidle.analysis.sampling import gil_waits
from whyidle.frameworks.torch.names import VOCABULARY
from whyidle.model.stack_samples import STACK_SAMPLE

MS = 1_000_000
ENGINE = "/lib/torch/autograd/graph.py(979): _engine_run_backward"
FORWARD = "/lib/torch/nn/modules/linear.py(134): forward"
OWN = "/job/train.py(9): step"


def looks(ran_ms, count=24):
    """A look every 20 ms, at a thread that was awake for so long in between."""
    samples = np.zeros(count, STACK_SAMPLE)
    samples["time"], samples["stack"] = np.arange(count) * 20 * MS, 1
    samples["runnable_ns"] = np.cumsum(np.full(count, ran_ms * MS, dtype=np.int64))
    return samples


def asleep(samples, held, idle=None):
    idle = np.ones(len(samples), dtype=bool) if idle is None else idle
    read = samples["time"]
    frames = gil_waits.LeafFrames.match_lines(VOCABULARY, [ENGINE, FORWARD, OWN, ""])
    return gil_waits.find_sleepers(samples, read, frames, held, idle)


def every(number, count=24):
    return np.arange(count) % number == 0


def test_the_lock_is_taken_whenever_it_sleeps():
    locked, blocked = asleep(looks(5), ~every(4))
    assert (locked == ~every(4)).all()
    assert not blocked.any()


def test_python_that_runs_between_calls_that_wait():
    """It sleeps for three quarters, and three looks in four find the lock free."""
    locked, blocked = asleep(looks(5), every(4))
    assert not locked.any()
    assert (blocked == ~every(4)).all()


def test_both():
    """Asleep all the time; half of the looks find the lock taken."""
    locked, blocked = asleep(looks(0), every(2))
    assert (locked == every(2)).all()
    assert (blocked == ~every(2)).all()


def test_few_looks_prove_nothing():
    assert not asleep(looks(0), every(6))[0].any()


def test_a_thread_whose_running_is_unknown_is_left_alone():
    samples = looks(0)
    samples["runnable_ns"] = -1
    assert not asleep(samples, every(2))[0].any()


def test_a_look_where_most_others_find_it_asleep_is_one_of_them():
    samples, idle = looks(1), np.arange(24) != 10
    samples["runnable_ns"][10:] += 15 * MS  # it ran at another moment
    held = np.ones(24, dtype=bool)
    assert asleep(samples, held, idle)[0][10]
    samples["stack"][10] = 2  # at another place
    assert not asleep(samples, held, idle)[0][10]


def contended(held, awake_ms=5, *, idle=True):
    """Looks at the backward pass, the forward pass and the user's own line in turns."""
    samples = looks(awake_ms)
    samples["stack"] = np.arange(24) % 3
    return samples, *asleep(samples, held, np.full(24, idle))


def test_a_lock_that_is_taken_in_most_of_the_backward_pass_tells_of_no_look_who_ran():
    assert contended(np.ones(24, dtype=bool))[1].all()


def test_a_lock_that_is_taken_now_and_then_keeps_operators_waiting():
    """A quarter of the looks at the backward pass; what runs at the user's own line is its own."""
    held = every(12) | (np.arange(24) % 3 > 0)
    idle = np.arange(24) % 3 < 2
    samples, locked, _ = contended(held, idle=idle)
    assert (locked == (held & (samples["stack"] < 2))).all()


def test_a_thread_that_waits_for_a_core_as_well_is_kept_waiting_all_the_same():
    assert contended(np.ones(24, dtype=bool), awake_ms=20, idle=False)[1].all()


def test_a_lock_that_is_held_by_what_a_compiler_does_in_a_few_backward_passes():
    """Five looks of ninety; the thread runs."""
    samples = looks(20, count=90)
    samples["stack"] = np.where(np.arange(90) < 5, 0, 2)
    held, awake = np.ones(90, dtype=bool), np.zeros(90, dtype=bool)
    assert not asleep(samples, held, awake)[0].any()
    assert asleep(samples, held, ~awake)[0].any()


def test_then_operators_that_sleep_wait_for_the_lock():
    held = np.arange(24) % 3 == 0
    samples, _, blocked = contended(held, awake_ms=0)
    assert (blocked == (samples["stack"] == 2)).all()


def test_the_user_s_folder_may_be_called_as_the_framework_is():
    seen = [FORWARD, "/home/me/torch/train.py(9): step", "/home/me/torch/utils/data.py(3): load"]
    frames = gil_waits.LeafFrames.match_lines(VOCABULARY, seen)
    assert frames.operator.tolist() == [True, False, False]
