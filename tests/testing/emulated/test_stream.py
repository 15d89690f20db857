"""Streams are arithmetic: nothing here waits."""

from __future__ import annotations

import threading

from whyidle.testing.emulated.stream import COMPUTE, Cost, Moment, Stream

Ran = tuple[int, int]


def made() -> tuple[Stream, list[Ran]]:
    ran: list[Ran] = []
    return Stream(0, threading.RLock(), lambda begin, end, _: ran.append((begin, end))), ran


def test_an_item_begins_when_it_was_enqueued_or_when_the_one_before_ended():
    stream, ran = made()
    for enqueued in (100, 110, 500):
        stream.put(enqueued, Cost(COMPUTE, 50))
    assert ran == [(100, 150), (150, 200), (500, 550)]


def test_a_mark_stands_behind_all_that_came_before():
    stream, _ = made()
    assert stream.mark(7).at == 7
    stream.put(10, Cost(COMPUTE, 50))
    assert stream.mark(20).at == 60
    assert stream.mark(90).at == 90


def test_a_stream_waits_for_a_moment_of_another():
    stream, ran = made()
    stream.wait(0, Moment(300))
    stream.put(10, Cost(COMPUTE, 5))
    assert ran == [(300, 305)]


def test_what_stands_behind_the_unknown_is_put_off_until_it_is_known():
    stream, ran = made()
    unknown = Moment()
    stream.put(0, Cost(COMPUTE, 10))
    stream.wait(1, unknown)
    stream.put(2, Cost(COMPUTE, 10))
    mark = stream.mark(3)
    stream.put(4, Cost(COMPUTE, 10))
    assert ran == [(0, 10)]
    assert mark.at is None
    assert stream.outstanding(1_000) == 4
    unknown.at = 100
    assert stream.settle()
    assert ran == [(0, 10), (100, 110), (110, 120)]
    assert mark.at == 110
    assert stream.outstanding(115) == 1
