"""Every form of diagnoses of real traces: valid, small, the same each time."""

import gzip
import json

import jsonschema
import pytest
from written import REAL

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.schema import make_schema
from whyidle.readers import kineto
from whyidle.recordings.trace_overlay import make_overlays
from whyidle.reports import html, markdown, perfetto
from whyidle.reports import json as document

NAMES = [
    ["mlp_rtx3080_workers0_bs16"],
    ["ddp_resnet_a100_rank0of2"],
    ["shampoo_dlrm_rank0of128", "shampoo_dlrm_rank1of128"],
    ["odd_no_gpu_events"],
    ["particle_transformer_a100_bs2"],
    ["mi210_gpu_only"],
]
pytestmark = pytest.mark.skipif(
    not (REAL / "kineto").is_dir(), reason="the shared real traces are not on this machine"
)


def path_of(name):
    return REAL / "kineto" / f"{name}.pt.trace.json.gz"


@pytest.fixture(scope="module", params=NAMES, ids=lambda names: names[0])
def job(request):
    timelines = [kineto.load(path_of(name)) for name in request.param]
    return request.param, timelines, diagnose_job(timelines)


def test_json_keeps_the_schema(job):
    _, _, diagnosis = job
    jsonschema.Draft202012Validator(make_schema()).validate(json.loads(document.render(diagnosis)))


def test_a_page_and_a_note_of_reasonable_size(job):
    _, timelines, diagnosis = job
    page = html.render(diagnosis)
    assert len(page.encode()) < 400_000
    assert len(markdown.render(diagnosis)) < 60_000  # the most that an issue holds is 65536
    assert html.render(diagnose_job(timelines)) == page


def test_the_annotated_trace_holds_the_recording_and_our_tracks_on_its_clock(job, tmp_path):
    names, timelines, diagnosis = job
    written = perfetto.write(
        diagnosis, make_overlays(timelines, diagnosis), tmp_path / "out.json.gz"
    )
    for name, path in zip(names, written, strict=True):
        before = json.loads(gzip.decompress(path_of(name).read_bytes()))["traceEvents"]
        after = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        ours = after[: len(after) - len(before)]
        assert after[len(ours) :] == before
        timed = [e["ts"] for e in before if e.get("ph") == "X" and e.get("cat") != "Trace"]
        steps = [e for e in ours if e["ph"] == "X" and e["tid"] == 1]
        assert steps
        assert min(timed) - 1 <= steps[0]["ts"] <= max(timed)
        marks = {e["name"]: e["ts"] for e in before if str(e.get("name")).startswith("ProfilerS")}
        for step in steps[1:]:
            if step["name"] in marks:  # a step on the device ends later than its mark, not by far
                assert abs(step["ts"] - marks[step["name"]]) < 2 * steps[0]["dur"] + 1e5
