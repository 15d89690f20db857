from __future__ import annotations

import json

import pytest
from written import event

from whyidle.readers._events.event_decoding import decode_text, repair_text

ONE = json.dumps(event()).encode()


def test_whole_events():
    assert [e.name for e in decode_text(ONE + b", " + ONE).events] == ["aten::add"] * 2


@pytest.mark.parametrize("tail", [b"]", b' ], "a": [{"b": 1}]}', b"]}", b"]\n}\n", b"] "])
def test_the_end_of_the_list_is_found(tail):
    """The decoder's message is our contract: if a new version words it anew, this test says so."""
    for closed in (True, False):
        tried = decode_text(ONE + tail, closed=closed)
        assert len(tried.events) == 1
        assert (ONE + tail)[: tried.end] == ONE + tail[: tail.index(b"]") + 1]


@pytest.mark.parametrize(
    "cut", [ONE[:20], ONE[:-1], ONE + b', {"name": "a', ONE + b', {"args": {"a": [1']
)
def test_a_text_that_stops_inside_a_value_is_short(cut):
    assert decode_text(cut).short
    assert decode_text(cut, closed=True).short


@pytest.mark.parametrize("broken", [b"x", ONE + ONE, ONE + b"],{", b"{1}", b'{"a" 1}, ' + ONE])
def test_broken_text_is_neither_whole_nor_short(broken):
    tried = decode_text(broken)
    assert (tried.events, tried.end, tried.short) == (None, None, False)


@pytest.mark.parametrize(
    ("slip", "put_right"),
    [
        (b'{"dur": NaN}', b'{"dur": null}'),
        (b'{"dur": -Infinity, "a": [inf]}', b'{"dur": null, "a": [null]}'),
        (rb'{"name": "C:\Users\new"}', rb'{"name": "C:\\Users\new"}'),
        (rb'{"name": "\ud800 \ud83d\ude00"}', rb'{"name": "\ufffd \ud83d\ude00"}'),
        (b'{"name": "a\x01b"}', b'{"name": "a b"}'),
        (b'{"name": "\xff"}', '{"name": "\ufffd"}'.encode()),
        (rb'{"name": "\\ \" \u00e9"}', rb'{"name": "\\ \" \u00e9"}'),
    ],
)
def test_known_slips_are_mended(slip, put_right):
    assert repair_text(slip) == put_right
    assert len(decode_text(slip).events) == 1
