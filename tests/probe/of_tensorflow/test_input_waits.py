"""Waits of calls, from the times between requests that tf.data keeps."""

import standin

from whyidle.probe.core.recorder import ANNOTATION
from whyidle.probe.frameworks.tensorflow import input_waits
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


class Model:
    def __init__(self, gaps):
        self.gap_times = [gap // 1000 for gap in gaps]


class Pipelines:
    """Gives a model as tf.data would."""

    def __init__(self, gaps):
        self.gaps = gaps

    current = None

    def note_iterator(self, iterator, consumer):
        pass

    def read_current(self):
        pass

    def read_model(self, iterator):
        return Model(self.gaps)

    def count_elements(self, model):
        return len(model.gap_times) + 1


class Iterator:
    element_spec = get_next = None


def test_the_last_call_of_an_epoch_works_as_long_as_the_others(tmp_path):
    loop = standin.Loop(tmp_path)
    waits, first = [6 * MS, 4 * MS, 2 * MS], Iterator()
    calls, gaps = calls_with(waits)
    calls[-1] = (calls[-1][0], calls[-1][0] + 8 * MS)
    listener = input_waits.InputWaits(loop, Pipelines(gaps))
    listener.reading_of((first,), "Model.fit").calls.extend(calls)
    assert listener.reading_of((first,), "Model.fit") is listener.readings[0]
    listener.reading_of((Iterator(),), "Model.fit")  # the next epoch
    listener.on_chore()
    found = [end - begin for begin, end, _, name, kind in loop.recorder.spans if kind == ANNOTATION]
    assert found == [6 * MS, 4 * MS, 2 * MS, 5 * MS]
    assert len(listener.readings) == 1, "the iterator of the epoch before is let go"


def test_what_is_no_iterator_is_not_read(tmp_path):
    listener = input_waits.InputWaits(standin.Loop(tmp_path), Pipelines([]))
    assert listener.reading_of((), "step") is None
    assert listener.reading_of(([1, 2],), "step") is None
