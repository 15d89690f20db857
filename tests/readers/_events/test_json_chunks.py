from __future__ import annotations

import io
import json

import pytest
from written import document, event

from whyidle.readers._events.json_chunks import JsonChunks


def read(text, size=256):
    pieces = JsonChunks(io.BytesIO(text).read, size)
    events = [event for listed, _ in pieces for event in listed]
    return [event.name for event in events], pieces


def names(count):
    return [f"op{i}" for i in range(count)]


def text_of(count, **header):
    return json.dumps(document([event(name=name) for name in names(count)], **header)).encode()


@pytest.mark.parametrize("size", [16, 100, 256, 1000, 100_000])
def test_every_event_once_whatever_the_piece(size):
    found, pieces = read(text_of(50), size)
    assert found == names(50)
    assert (pieces.lost_text, pieces.cut) == (None, False)
    assert pieces.header["traceName"] == "x.json"


def test_the_text_of_a_piece_is_the_text_of_its_events():
    for events, text in JsonChunks(io.BytesIO(text_of(50)).read, 256):
        assert len(json.loads(b"[" + text + b"]")) == len(events)


@pytest.mark.parametrize(
    "odd", ["},{", '}, {"ph": "X"}, {', "]}", '"traceEvents":[', "\\", '"', "\u2028"]
)
def test_text_that_looks_like_structure(odd):
    listed = [
        event(name=odd * 40, args={odd: [{odd: 1}, {odd: [{}, {}, {}, {}]}]}) for _ in range(20)
    ]
    text = json.dumps({odd: [{}, {}], **document(listed), "after": [{odd: 1}, {odd: 2}] * 200})
    found, pieces = read(text.encode())
    assert found == [odd * 40] * 20
    assert pieces.lost_text is None
    assert len(pieces.header["after"]) == 400


def test_one_event_larger_than_many_pieces():
    listed = [event(name="a"), event(name="},{" * 2000), event(name="b")]
    found, pieces = read(json.dumps(listed).encode())
    assert found == ["a", "},{" * 2000, "b"]
    assert pieces.lost_text is None


def test_a_broken_event_costs_only_itself():
    text = text_of(50).replace(b'"name": "op20"', b'"name" "op20"')
    found, pieces = read(text)
    assert found == [name for name in names(50) if name != "op20"]
    assert "1 kB of text" in pieces.lost_text
    assert not pieces.cut


def test_the_last_event_broken_does_not_hide_the_end():
    found, pieces = read(text_of(50).replace(b'"name": "op49"', b'"name" "op49"'), 100_000)
    assert found == names(49)
    assert pieces.header["traceName"] == "x.json"
    assert not pieces.cut


def test_garbage_in_the_middle():
    text = text_of(200)
    half = text.index(b'"op100"')
    found, pieces = read(text[:half] + bytes(range(256)) * 40 + text[half:])
    assert set(found) >= set(names(100)) | set(names(200)[103:])
    assert pieces.lost_text
    assert not pieces.cut


def test_deep_nesting_costs_only_its_event():
    deep = json.dumps(event(name="deep"))[:-1] + ', "a": ' + "[" * 50_000 + "]" * 50_000 + "}"
    text = text_of(20).replace(b'{"ph"', deep.encode() + b', {"ph"', 1)
    found, pieces = read(text)
    assert found == names(20)
    assert pieces.lost_text


@pytest.mark.parametrize("size", [256, 100_000])
def test_cut_at_every_byte(size):
    text = text_of(6, baseTimeNanoseconds=5)
    start = text.index(b"[") + 1
    end = text.index(b"]")
    for at in range(start, len(text)):
        found, pieces = read(text[:at], size)
        assert found == names(6)[: len(found)]
        assert len(found) >= text[start:at].count(b'"dur": 5}')
        assert pieces.cut == (at <= end)
        assert bool(pieces.lost_text) == (at < len(text))
        assert pieces.header.get("baseTimeNanoseconds") == 5


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"traceEvents": 1}', b"x" * 5000, b'{"a": "traceEvents: ["}']
)
def test_no_event_list(text):
    with pytest.raises(LookupError):
        read(text)


def test_a_second_list_and_keys_around_are_no_trouble():
    text = b'{"a": {"b": [1]}, "traceEvents": [%s], "traceEvents": [%s], "z": 1}' % (
        json.dumps(event(name="first")).encode(),
        json.dumps(event(name="second")).encode(),
    )
    found, pieces = read(text)
    assert found == ["first"]
    assert pieces.header["z"] == 1
