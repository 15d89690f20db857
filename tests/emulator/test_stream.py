"""Streams are arithmetic: nothing here waits."""

from __future__ import annotations

from emulator.device.stream import COMPUTE, Cost, Stream

Ran = tuple[int, int]


def made() -> tuple[Stream, list[Ran]]:
    ran: list[Ran] = []
    return Stream(0, lambda begin, end, _: ran.append((begin, end))), ran


def test_an_item_begins_when_it_was_enqueued_or_when_the_one_before_ended():
    stream, ran = made()
    for enqueued in (100, 110, 500):
        stream.put(enqueued, Cost(COMPUTE, 50))
    assert ran == [(100, 150), (150, 200), (500, 550)]


def test_a_mark_stands_behind_all_that_came_before():
    stream, _ = made()
    assert stream.mark(7) == 7
    stream.put(10, Cost(COMPUTE, 50))
    assert stream.mark(20) == 60
    assert stream.mark(90) == 90


def test_a_stream_waits_for_a_moment_of_another():
    stream, ran = made()
    stream.wait(300)
    stream.put(10, Cost(COMPUTE, 5))
    assert ran == [(300, 305)]


def test_there_is_room_when_enough_have_ended():
    stream, _ = made()
    for _ in range(4):
        stream.put(0, Cost(COMPUTE, 10))
    assert stream.full(5, 5) is None
    assert stream.full(5, 4) == 10
    assert stream.full(5, 2) == 30
    assert stream.full(15, 4) is None
