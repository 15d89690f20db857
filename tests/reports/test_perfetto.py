"""The annotated trace: the recording as it was, and our tracks on its clock."""

import gzip
import json
import zipfile
from decimal import Decimal

import pytest

from whyidle.errors import InputError
from whyidle.model.overlay import Mark, Overlay, Track
from whyidle.reports.perfetto import PROCESS, write

EVENTS = [
    {"ph": "X", "cat": "kernel", "name": "}, {", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2.25},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9},
    {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 3, "args": {"a": [{}, {}]}},
]


def overlay(source, *, rank=None, recording=()):
    marks = [Mark(1_712_195_495_519_689_123, 1_001, "gap", {"bucket": "input", "share": 0.5})]
    tracks = (Track("whyidle gaps", iter(marks)), Track("empty", ()))
    return Overlay(str(source), rank, tracks, recording)


def read(path):
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return json.loads(text, parse_float=Decimal), text


def split(document):
    events = document["traceEvents"] if isinstance(document, dict) else document
    ours = [event for event in events if event["pid"] == PROCESS]
    return ours, events[len(ours) :]


def as_text(events, **rest):
    return json.dumps({"schemaVersion": 1, "traceEvents": events, **rest}).encode()


def test_the_recording_passes_through_unchanged(tmp_path, full):
    text = as_text(EVENTS, baseTimeNanoseconds=17)
    (source := tmp_path / "in.json").write_bytes(text)
    (path,) = write(full, [overlay(source)], tmp_path / "out.json")
    document, written = read(path)
    assert written.endswith(text[text.index(b'[{"ph"') + 1 :])
    assert split(document)[1] == json.loads(text, parse_float=Decimal)["traceEvents"]
    assert document["baseTimeNanoseconds"] == 17


def test_our_events_are_exact_and_named(tmp_path, full):
    (source := tmp_path / "in.json").write_bytes(as_text(EVENTS))
    (path,) = write(full, [overlay(source)], tmp_path / "out.json")
    ours, _ = split(read(path)[0])
    (gap,) = [event for event in ours if event["ph"] == "X"]
    assert gap["ts"] == Decimal("1712195495519689.123")
    assert gap["dur"] == Decimal("1.001")
    assert gap["args"]["bucket"] == "input"
    names = [event["args"]["name"] for event in ours if event["name"].endswith("_name")]
    assert names == ["whyidle", "whyidle gaps", "empty"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("out", ["out.json", "out.json.gz"])
def test_gzip_in_and_out(tmp_path, full, packed, out):
    text = as_text(EVENTS)
    source = tmp_path / ("in.json.gz" if packed else "in.json")
    source.write_bytes(gzip.compress(text) if packed else text)
    (path,) = write(full, [overlay(source)], tmp_path / out)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == out.endswith(".gz")
    assert len(split(read(path)[0])[1]) == len(EVENTS)


def test_the_same_bytes_each_time(tmp_path, full):
    (source := tmp_path / "in.json").write_bytes(as_text(EVENTS))
    first = write(full, [overlay(source)], tmp_path / "a.json.gz")[0].read_bytes()
    assert write(full, [overlay(source)], tmp_path / "b.json.gz")[0].read_bytes() == first


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(EVENTS).encode(),
        b"\xef\xbb\xbf \n[ ]",
        as_text([]),
        b'{"traceEvents"  :\n [\n]\n}',
        b'{"a": "' + b"x" * (3 << 20) + b'", "traceEvents": [{"ph": "M", "pid": 1}]}',
    ],
    ids=["bare list", "empty bare list", "empty", "spaces", "long head"],
)
def test_forms_of_the_event_list(tmp_path, full, text):
    (source := tmp_path / "in.json").write_bytes(text)
    (path,) = write(full, [overlay(source)], tmp_path / "out.json")
    document = json.loads(path.read_bytes().decode("utf-8-sig"))
    before = json.loads(text.decode("utf-8-sig"))
    assert split(document)[1] == split(before)[1]


@pytest.mark.parametrize("bare", [False, True])
def test_cut_anywhere_it_is_closed_after_the_last_whole_event(tmp_path, full, bare):
    text = json.dumps(EVENTS).encode() if bare else as_text(EVENTS)
    start = text.index(b'{"ph"')
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    for end in range(start, len(text) - 1):
        source.write_bytes(text[:end])
        write(full, [overlay(source)], target)
        kept = split(read(target)[0])[1]
        assert kept == json.loads(json.dumps(EVENTS), parse_float=Decimal)[: len(kept)]
        whole = sum(end >= start + len(json.dumps(EVENTS[: i + 1])) - 2 for i in range(3))
        assert len(kept) == whole


def test_a_damaged_gzip_gives_what_it_holds(tmp_path, full):
    many = EVENTS * 3000
    data = gzip.compress(as_text(many))
    (source := tmp_path / "in.json.gz").write_bytes(data[: len(data) * 2 // 3])
    (path,) = write(full, [overlay(source)], tmp_path / "out.json")
    assert 1000 < len(split(read(path)[0])[1]) < len(many)


def test_large_files_are_cut_in_bounded_memory(tmp_path, full):
    many = EVENTS * 20_000
    text = as_text(many)[:-5]
    (source := tmp_path / "in.json").write_bytes(text)
    (path,) = write(full, [overlay(source)], tmp_path / "out.json")
    assert len(split(read(path)[0])[1]) in (len(many) - 1, len(many))


def test_several_recordings_go_to_one_file_each(tmp_path, full):
    sources = []
    for rank in range(2):
        sources.append(tmp_path / f"rank{rank}.json")
        sources[-1].write_bytes(as_text(EVENTS[rank:]))
    laid = [overlay(sources[0], rank=0), overlay(sources[1])]
    paths = write(full, laid, tmp_path / "my.out.json.gz")
    assert [path.name for path in paths] == ["my.out.rank0.json.gz", "my.out.recording1.json.gz"]


def test_a_member_of_a_zip(tmp_path, full):
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a/rank0.json", as_text(EVENTS))
    (path,) = write(full, [overlay(f"{archive}!a/rank0.json")], tmp_path / "out.json")
    assert len(split(read(path)[0])[1]) == len(EVENTS)


@pytest.mark.parametrize("name", ["gone.json", "gone.zip!a.json"])
def test_a_recording_that_is_gone(tmp_path, full, name):
    with pytest.raises(InputError, match="a second time"):
        write(full, [overlay(tmp_path / name)], tmp_path / "out.json")


def test_the_recording_is_never_overwritten(tmp_path, full):
    (source := tmp_path / "in.json").write_bytes(as_text(EVENTS))
    with pytest.raises(InputError, match="is the recording itself"):
        write(full, [overlay(source)], source)
    assert source.read_bytes() == as_text(EVENTS)
