"""Waits of calls, from the times between requests that tf.data keeps."""

from whyidle.probe.frameworks.tensorflow.input_waits import find_waits

MS = 1_000_000


def calls_with(waits, work=3 * MS, between=1 * MS):
    """Calls that wait, work, and leave some time to the next; and the times between requests."""
    calls, begin = [], 0
    for wait in waits:
        calls.append((begin, begin + wait + work))
        begin += wait + work + between
    calls.append((begin, begin + work))
    return calls, [work + between] * len(waits)


def test_the_wait_is_what_the_consumer_did_not_take():
    waits = [5 * MS, 0, 2 * MS, 7 * MS]
    calls, gaps = calls_with(waits)
    assert find_waits(calls, gaps, elements=5, before=0, usual=None) == waits


def test_the_request_of_a_call_that_runs_now_may_not_be_noted_yet():
    waits = [5 * MS, 0, 2 * MS, 7 * MS]
    calls, gaps = calls_with(waits)
    gaps[0] = 9 * MS  # of an evaluation in between
    calls = [calls[0], *((begin + 5 * MS, end + 5 * MS) for begin, end in calls[1:])]
    for known in (gaps, [*gaps, 4 * MS]):
        assert find_waits(calls, known, elements=5, before=0, usual=None) == waits


def test_calls_before_the_last_hundred_gaps_wait_as_long_as_the_mean_says():
    calls, gaps = calls_with([2 * MS] * 6)
    assert find_waits(calls, gaps[:4], elements=7, before=0, usual=None) == [2 * MS] * 6


def test_a_call_of_several_steps_takes_several_batches():
    calls, _ = calls_with([8 * MS] * 4, work=20 * MS, between=0)
    gaps = [5 * MS] * 16
    assert find_waits(calls, gaps, elements=20, before=0, usual=None) == [8 * MS] * 4


def test_without_a_model_nothing_is_known():
    calls, _ = calls_with([MS, MS])
    assert find_waits(calls, [], elements=0, before=0, usual=None) == []
    assert find_waits(calls, [], elements=0, before=0, usual=4 * MS) == [MS, MS]
