from __future__ import annotations

import gzip
import os
import zipfile

import pytest
from written import document, event, outcome, steps, write

from whyidle.errors import BrokenTraceError, InputError
from whyidle.model.timeline import Timeline
from whyidle.readers import kineto
from whyidle.readers._files import byte_stream as _byte_stream
from whyidle.readers._files.byte_stream import ByteStream


def test_gzip_cut_at_any_place_is_a_partial_timeline_or_a_clear_error(tmp_path):
    data = write(tmp_path / "t.json.gz", document(steps(2000))).read_bytes()
    seen = []
    for at in range(1, len(data), len(data) // 40):
        found = outcome(write(tmp_path / "cut", data[:at]))
        if isinstance(found, Timeline):
            seen.append(len(found.host))
            assert found.source.lost
    assert seen == sorted(seen)
    assert len(seen) > 30


def test_damaged_gzip_says_so(tmp_path):
    data = bytearray(write(tmp_path / "t.json.gz", document(steps(2000))).read_bytes())
    data[len(data) // 2] ^= 0xFF
    t = kineto.load(write(tmp_path / "bad", bytes(data)))
    assert "damaged" in t.source.lost


def test_a_wrong_checksum_loses_little_and_is_told(tmp_path):
    data = bytearray(write(tmp_path / "t.json.gz", document(steps(5000))).read_bytes())
    data[-6] ^= 0xFF
    t = kineto.load(write(tmp_path / "bad", bytes(data)))
    assert len(t.host) > 7000
    assert "CRC" in t.source.lost


def test_a_bomb_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(_byte_stream, "BOMB_BYTES", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (20 << 20)))
    with pytest.raises(BrokenTraceError, match="decompression bomb"):
        kineto.load(path)


def test_the_limit_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(_byte_stream, "LIMIT_BYTES", 300_000)
    t = kineto.load(write(tmp_path / "t.json", document(steps(5000))))
    assert "reading stopped" in t.source.lost
    assert t.cut


def test_reading_stops_where_nothing_of_use_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(kineto, "_BARREN_BYTES", 1 << 19)
    events = [event(ts=1), *({"ph": "M", "name": "x" * 50} for _ in range(40_000))]
    t = kineto.load(write(tmp_path / "t.json", document(events)))
    assert "without an event" in t.source.lost
    assert len(t.host) == 1


def test_zip_members_are_streamed(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(write(tmp_path / "a.json", document(steps(100))), "a/rank_1.json")
        archive.write(write(tmp_path / "b.json.gz", document(steps(50))), "b.json.gz")
    first = kineto.load(tmp_path / "t.zip", member="a/rank_1.json")
    assert (len(first.host), first.rank) == (200, 1)
    assert len(kineto.load(tmp_path / "t.zip", member="b.json.gz").host) == 100
    with pytest.raises(InputError, match=r"t\.zip!none"):
        kineto.load(tmp_path / "t.zip", member="none")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        ByteStream(tmp_path / "pipe")
