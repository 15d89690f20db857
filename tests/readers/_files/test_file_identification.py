from __future__ import annotations

import gzip
import pickle
import shlex
import struct
import zipfile

import pytest
from written import write

from whyidle.errors import BrokenTraceError, NotATraceError
from whyidle.readers import kineto
from whyidle.readers._files.file_identification import identify_file
from whyidle.readers._files.parallel_load import load_all
from whyidle.readers._files.recording_search import find_recordings


def _tensorboard():
    record = b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"
    return struct.pack("<Q", len(record)) + bytes(4) + record + bytes(4)


FOREIGN = {
    "SQLite": b"SQLite format 3\0" + bytes(100),
    "Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 870601265\n",
    "Perfetto": b"\n\x0d2\x0b\n\x04\x08\x06\x10\x01\x50\x03\x18\0" + bytes(40),
    "execution trace": b'{"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [{"id": 2}]}',
    "key_averages": b"----  ----\nName  Self CPU %  Self CPU\n----\naten::mm  12.3%  1.2ms\n",
    "HTML": b"<!DOCTYPE html><html>",
    "pickle": pickle.dumps({"segments": [], "device_traces": []}),
    "TensorBoard": _tensorboard(),
    "nvidia-smi": b"timestamp, name, utilization.gpu [%]\n2024/01/01, V100, 3 %\n",
    "comma-separated": b"a,b,c\n1,2,3\n",
    "plain-text": b"Epoch 1 loss 0.3\nEpoch 2 loss 0.2\n",
    "Python script": b"import torch\nprint(1)\n",
    "memory snapshot": b'{"segments": [], "device_traces": []}',
    "rocprofv3": b'{"rocprofiler-sdk-tool": [{"metadata": {}}]}',
    "JSON of another kind": b'{"hello": 1}',
    "zero bytes": bytes(500),
    "UTF-16": '{"traceEvents": []}'.encode("utf-16"),
    "safetensors": struct.pack("<Q", 60) + b'{"weight": {"dtype": "F32"}}',
    "binary file": bytes(range(1, 256)) * 3,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("what", FOREIGN)
def test_a_foreign_file_is_named_with_a_way_on(tmp_path, what, packed):
    path = write(tmp_path / ("f.json.gz" if packed else "f.json"), FOREIGN[what])
    with pytest.raises(NotATraceError, match=what) as caught:
        kineto.load(path)
    assert caught.value.hint


def test_an_empty_file(tmp_path):
    with pytest.raises(NotATraceError, match="It is empty"):
        kineto.load(write(tmp_path / "f.json", b""))


@pytest.mark.parametrize(
    "text", [b'{"schemaVersion": 1, "device', b'{"distributedInfo": {"rank": 1}}']
)
def test_a_trace_cut_before_its_events(tmp_path, text):
    with pytest.raises(BrokenTraceError, match="before its event list"):
        kineto.load(write(tmp_path / "f.json", text))


def test_gzip_cut_in_its_first_bytes(tmp_path):
    with pytest.raises(BrokenTraceError, match="cut short or damaged"):
        kineto.load(write(tmp_path / "f", gzip.compress(b'{"traceEvents": []}')[:12]))


def test_any_bytes_are_called_something():
    for byte in range(256):
        what, hint = identify_file(bytes([byte]) * 40)
        assert what
        assert hint


def test_a_zip_that_is_a_checkpoint(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    with pytest.raises(NotATraceError, match="zip"):
        kineto.load(tmp_path / "m.pt")


def test_a_result_of_tensorflow_s_profiler_is_no_recording(tmp_path):
    path = write(tmp_path / "host.input_pipeline.pb", b"\x0a\x02ab" + bytes(range(200)))
    with pytest.raises(NotATraceError, match="result of TensorFlow's profiler") as caught:
        load_all(find_recordings(path))
    assert ".xplane.pb" in caught.value.hint


@pytest.mark.parametrize("name", ["my run.nsys-rep", "old.qdrep"])
@pytest.mark.parametrize("in_folder", [False, True])
def test_a_report_of_nsight_systems_is_answered_with_its_export_command(tmp_path, name, in_folder):
    path = tmp_path / name
    path.write_bytes(b"report")
    with pytest.raises(NotATraceError, match="Nsight Systems report") as caught:
        load_all(find_recordings(tmp_path if in_folder else path))
    database = path.with_suffix(".sqlite")
    command = f"nsys export --type sqlite -o {shlex.quote(str(database))} {shlex.quote(str(path))}"
    assert command in caught.value.hint
