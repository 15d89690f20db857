"""Whatever the bytes: a valid timeline or a clear error, in bounded time."""

from __future__ import annotations

import gzip
import io
import json
import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from written import START_US, document, event, kernel, outcome, steps, write

from whyidle.readers._events.json_chunks import JsonChunks

ROUNDS = 150
ODD = [
    None,
    True,
    -1,
    0,
    1e308,
    -1e308,
    10**400,
    "",
    "x",
    "1e5",
    [],
    {},
    [[]],
    {"a": {}},
    START_US * 1.5,
]
TOKENS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"},{",
    b"\\",
    b"\0",
    b"\xff\xfe",
    b"NaN",
    b"1e999",
    b" ",
]
FIELDS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
ARGS = [
    "correlation",
    "device",
    "stream",
    "bytes",
    "Input Dims",
    "Call stack",
    "Group size",
    "Device Type",
]


def _shuffle(dice, events, text):
    dice.shuffle(events)
    return json.dumps(document(events)).encode()


def _duplicate(dice, events, text):
    return json.dumps(document(events * 3)).encode()


def _odd_values(dice, events, text):
    for one in dice.sample(events, 20):
        if dice.random() < 0.5:
            one[dice.choice(FIELDS)] = dice.choice(ODD)
        else:
            one["args"] = {dice.choice(ARGS): dice.choice(ODD)}
    return json.dumps(document(events), indent=dice.choice([None, 1])).encode()


def _drop_fields(dice, events, text):
    for one in dice.sample(events, 60):
        one.pop(dice.choice(FIELDS), None)
    return json.dumps(events).encode()


def _cut(dice, events, text):
    return text[: dice.randrange(len(text))]


def _mutate(dice, events, text):
    data = bytearray(text)
    for _ in range(dice.choice([1, 3, 30, 300])):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def _insert_tokens(dice, events, text):
    for _ in range(dice.choice([1, 3, 30])):
        at = dice.randrange(len(text))
        text = text[:at] + dice.choice(TOKENS) * dice.choice([1, 2, 1000]) + text[at:]
    return text


def _delete_spans(dice, events, text):
    for _ in range(dice.choice([1, 3, 30])):
        at = dice.randrange(len(text))
        text = text[:at] + text[at + dice.choice([1, 2, 500]) :]
    return text


def _nest(dice, events, text):
    depth = dice.choice([10, 500, 20_000])
    at = text.index(b'"ph"', dice.randrange(len(text) // 2))
    return (
        text[:at]
        + b'"a": '
        + b"[" * depth
        + b"]" * dice.choice([depth, 0, depth + 1])
        + b", "
        + text[at:]
    )


def _damage_gzip(dice, events, text):
    data = bytearray(gzip.compress(text, 1))
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data[: dice.choice([len(data), dice.randrange(2, len(data))])])


DAMAGES = [
    *(_shuffle, _duplicate, _odd_values, _drop_fields, _cut, _mutate),
    *(_insert_tokens, _delete_spans, _nest, _damage_gzip),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_damaged_traces(tmp_path, damage):
    dice = random.Random(damage.__name__)
    for _ in range(ROUNDS // 5 if damage in (_nest, _insert_tokens) else ROUNDS // 2):
        events = steps(60)
        text = json.dumps(document(events), indent=dice.choice([None, 1])).encode()
        started = time.perf_counter()
        outcome(write(tmp_path / "t.json", damage(dice, events, text)))
        assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    "noise", [b"},{", b'}x,{"', b'"', b"[", b'{"a":', b"\0", b"}\n,\n{", b"]},"]
)
def test_a_megabyte_of_noise_takes_no_time(tmp_path, noise):
    text = json.dumps(document(steps(3000))).encode()
    half = len(text) // 2
    path = write(tmp_path / "t.json", text[:half] + noise * ((1 << 20) // len(noise)) + text[half:])
    started = time.perf_counter()
    outcome(path)
    assert time.perf_counter() - started < 10


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
odd_events = (
    st.dictionaries(st.sampled_from([*FIELDS, "id", "s"]), json_values, max_size=8) | json_values
)
quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@quick
@given(
    st.lists(odd_events, max_size=8), st.dictionaries(st.text(max_size=12), json_values, max_size=3)
)
def test_any_events_and_any_header(tmp_path, odd, header):
    outcome(
        write(
            tmp_path / "t.json",
            {**header, "traceEvents": [*odd, event(ts=START_US), kernel(START_US)]},
        )
    )


@quick
@given(
    st.binary(max_size=200), st.sampled_from([b"", b'{"traceEvents": [', b"[", b"\x1f\x8b\x08\x00"])
)
def test_any_bytes(tmp_path, data, begin):
    outcome(write(tmp_path / "t.json", begin + data))


@quick
@given(
    st.lists(st.text(max_size=20), min_size=1, max_size=30),
    st.integers(8, 400),
    st.sampled_from([None, 0, 2]),
)
def test_names_survive_any_piece_size(names, size, indent):
    text = json.dumps(document([event(name=name) for name in names]), indent=indent).encode()
    pieces = JsonChunks(io.BytesIO(text).read, size)
    assert [one.name for events, _ in pieces for one in events] == names
    assert pieces.lost_text is None
