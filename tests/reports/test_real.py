"""Every form of diagnoses of real traces: valid, small, the same each time."""

import json

import jsonschema
import pytest
from written import REAL

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.schema import make_schema
from whyidle.readers import kineto
from whyidle.reports import html, markdown
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
