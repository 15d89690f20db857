"""Every real trace, against a plain reading of its JSON with decimal arithmetic."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal

import numpy as np
import pytest
from written import REAL, check

from whyidle.model.timeline import DeviceKind, HostKind
from whyidle.readers import kineto
from whyidle.readers._events.event_types import kind_of

FILES = sorted((REAL / "kineto").glob("*.gz")) if (REAL / "kineto").is_dir() else []
pytestmark = pytest.mark.skipif(not FILES, reason="the shared real traces are not on this machine")
SMALL = [path for path in FILES if path.stat().st_size < 200_000]
EXACT = "ddp_resnet_v100_world1"


def name_of(path):
    return path.name.removesuffix(".pt.trace.json.gz")


EXPECTED = {
    "aot_ddp_v100_rank1of2": ("cuda", 1, 2),
    "dlrm_a100_rank3of8": ("cuda", 3, 8),
    "flux_mi300x_cudagraphs": ("rocm", 0, 1),
    "mi210_gpu_only": ("rocm", None, None),
    "odd_cpu_only_gloo_rank34": ("cpu", 34, 300),
    "odd_cupti_profiler_mode": ("cuda", 0, None),
    "odd_no_gpu_events": ("cuda", 0, None),
    "odd_tiny_tb_plugin": ("cuda", None, None),
    "resnet50_v100_workers0_a": ("cuda", None, None),
    "shampoo_dlrm_rank1of128": ("cuda", 1, 128),
    "toy_mi250_rocm62": ("rocm", None, None),
    "toy_mi350x": ("rocm", None, None),
}
"""device, rank and number of ranks"""


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_read_whole_and_valid(path):
    real = kineto.load(path)
    check(real)
    told = (real.info.kind, real.rank, real.world_size)
    assert told == EXPECTED.get(name_of(path), told)
    assert (real.source.lost, real.cut) == (None, False)
    assert 1_600_000_000 < real.base_ns / 1e9 < 1_800_000_000
    assert real.source.events > 200


@pytest.mark.parametrize("path", [*SMALL, *(f for f in FILES if EXACT in f.name)], ids=name_of)
def test_the_columns_are_the_documents(path):
    timeline = kineto.load(path)
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events = document if isinstance(document, list) else document["traceEvents"]
    offset = 0 if isinstance(document, list) else int(document.get("baseTimeNanoseconds", 0))
    complete = [event for event in events if event["ph"] == "X"]
    for kind, columns in ((HostKind, timeline.host), (DeviceKind, timeline.device)):
        kept = [event for event in complete if isinstance(kind_of(event["cat"]), kind)]
        expected = sorted((_ns(e["ts"]) + offset, _ns(e["dur"]), e["name"]) for e in kept)
        names = [timeline.names[i] for i in columns.name]
        starts = (columns.start + timeline.base_ns).tolist()
        lengths = (columns.end - columns.start).tolist()
        assert sorted(zip(starts, lengths, names, strict=True)) == expected


def _ns(microseconds):
    return int((Decimal(microseconds) * 1000).to_integral_value())


def test_the_two_ranks_of_one_job_share_a_clock():
    ranks = [
        kineto.load(REAL / "kineto" / f"shampoo_dlrm_rank{i}of128.pt.trace.json.gz") for i in (0, 1)
    ]
    spans = [(t.base_ns, t.base_ns + int(t.device.end.max())) for t in ranks]
    overlap = min(end for _, end in spans) - max(start for start, _ in spans)
    assert overlap > 0.9 * min(end - start for start, end in spans)


def test_profiler_range_mode_is_told():
    found = kineto.load(REAL / "kineto" / "odd_cupti_profiler_mode.pt.trace.json.gz")
    assert "profiler-range mode" in found.source.notes[0]
    assert np.unique(found.host.kind).size > 1


@pytest.mark.parametrize("folder", ["nsys", "telemetry", "xplane", "steps"])
def test_other_recordings_are_named(folder):
    """What a file is, or for a trace of another profiler what its events are."""
    files = sorted(path for path in (REAL / folder).rglob("*") if path.is_file())
    assert files
    for path in files:
        with pytest.raises(kineto.NotATraceError) as caught:
            kineto.load(path)
        assert caught.value.why.startswith(
            ("It looks like", "Its events are of the kinds", "Its events have no category")
        ), path
