"""The annotated trace is valid JSON, whatever the recording's text is."""

from __future__ import annotations

import json
from pathlib import Path

import exports
import profiles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import START_US, document, event, steps, write

from whyidle.errors import WhyidleError
from whyidle.recordings.explain import explain_paths
from whyidle.recordings.trace_overlay import make_overlays
from whyidle.reports import perfetto
from whyidle.reports._event_list import valid_event_list

FIXTURES = sorted((Path(__file__).parents[1] / "diagnosis/trace_cases").glob("*.gz"))


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def strictly(text):
    return json.loads(text, parse_constant=refuse)


def annotate(path, tmp_path):
    diagnosis, timelines = explain_paths([path])
    written = perfetto.write(
        diagnosis, make_overlays(timelines, diagnosis), tmp_path / "annotated.json"
    )
    return [strictly(one.read_text("utf-8")) for one in written]


def events_of(found):
    return found["traceEvents"] if isinstance(found, dict) else found


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_every_trace_that_is_read(path, tmp_path):
    for found in annotate(path, tmp_path):
        assert len(events_of(found)) > 20


def windows_paths():
    listed = steps(6)
    listed.append(event(name=r"C:\Users\me\new\x.py(3): run", ts=START_US + 7))
    text = json.dumps({**document(listed), "traceName": r"C:\temp\x.json"})
    return text.replace("\\\\", "\\").encode()


def bad_numbers():
    text = json.dumps(document(steps(6), distributedInfo={"rank": 0, "load": float("nan")}))
    return text.replace('"dur": 50', '"dur": 50, "score": -Infinity, "other": NaN', 2).encode()


UNUSUAL = {
    "paths of Windows": windows_paths(),
    "numbers that JSON does not have": bad_numbers(),
    "control characters": json.dumps(document(steps(6)))
    .replace("aten::add", "a\tb\x01", 1)
    .encode(),
    "bytes that are not UTF-8": json.dumps(document(steps(6)))
    .encode()
    .replace(b"aten", b"\xff\xfe", 1),
    "a damaged event": json.dumps(document(steps(6))).replace('"cat"', '"ca', 1).encode(),
    "two documents": 2 * json.dumps(document(steps(6))).encode(),
    "keys twice": json.dumps(document(steps(6))).replace('"ph"', '"ts": 1, "ts": 2, "ph"').encode(),
    "cut short": json.dumps(document(steps(6))).encode()[:-300],
    "a bare list, cut": json.dumps(steps(6)).encode()[:-30],
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_text_that_is_not_json(kind, tmp_path):
    (found,) = annotate(write(tmp_path / "in.json", UNUSUAL[kind]), tmp_path)
    kernels = [one for one in events_of(found) if one.get("cat") == "kernel"]
    assert len(kernels) >= 4


def test_backslashes_are_kept(tmp_path):
    (found,) = annotate(write(tmp_path / "in.json", UNUSUAL["paths of Windows"]), tmp_path)
    assert "C:\\Users\\me\new\\x.py(3): run" in {one["name"] for one in events_of(found)}
    assert found["traceName"] == "C:\temp\\x.json"


@pytest.mark.parametrize("data", [profiles.gpu_job(), profiles.cpu_job(), profiles.tpu_job()])
def test_a_profile_is_written_as_a_trace(data, tmp_path):
    (tmp_path / "x.xplane.pb").write_bytes(data)
    (found,) = annotate(tmp_path / "x.xplane.pb", tmp_path)
    tracks = {one["args"].get("name") for one in events_of(found) if one["ph"] == "M"}
    assert {"whyidle gaps", "python"} <= tracks or "device 0, stream 0" in tracks


def test_an_export_is_written_as_a_trace_per_process(tmp_path):
    found = annotate(exports.job(41, 57).write(tmp_path / "x.sqlite"), tmp_path)
    assert len(found) == 2
    for one in found:
        names = [mark["name"] for mark in events_of(one)]
        assert names.count("ampere_sgemm_128x64_tn") == 6


WHOLE = json.dumps(document(steps(8))).encode()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_damage(tmp_path_factory, data):
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + 1] = data.draw(
            st.sampled_from([b'"', b"\\", b"NaN", b"{", b"]", b"\0", b"", b"\xe9"])
        )
    folder = tmp_path_factory.mktemp("fuzz")
    try:
        annotate(write(folder / "in.json", bytes(damaged)), folder)
    except WhyidleError:
        return  # what cannot be read is not annotated


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(), st.text() | st.integers()), max_size=8), st.integers(1, 9)
)
def test_valid_text_passes_through_whatever_its_pieces(events, size):
    text = json.dumps(events)[1:].encode()
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    assert b"".join(valid_event_list(iter(pieces), bare=True)) == text
