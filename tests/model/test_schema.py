"""The published schema is the one the types make, and diagnoses keep it."""

import json
from pathlib import Path

import jsonschema
import pytest

from imagined_jobs import SICK, healthy
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model import schema
from whyidle.reports.json import render

PUBLISHED = Path(__file__).parents[2] / schema.PUBLISHED
CHECK = jsonschema.Draft202012Validator(schema.make_schema())


def test_the_published_schema_is_current():
    again = "run: python -m whyidle.model.schema > " + schema.PUBLISHED
    assert PUBLISHED.read_text(encoding="utf-8") == schema.schema_text(), again


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(schema.make_schema())


@pytest.mark.parametrize("name", ["healthy", *SICK])
def test_diagnoses_keep_it(name):
    timeline = SICK.get(name, healthy)().timeline()
    CHECK.validate(json.loads(render(diagnose_job([timeline]))))


def test_every_key_is_required_and_no_other_allowed():
    document = json.loads(render(diagnose_job([healthy().timeline()])))
    without = {key: value for key, value in document.items() if key != "findings"}
    assert not CHECK.is_valid(without)
    assert not CHECK.is_valid({**document, "more": 1})
    part = {key: value for key, value in document["run"].items() if key != "exit_status"}
    assert not CHECK.is_valid({**document, "run": part})


@pytest.mark.parametrize("name", schema.DOCUMENTS)
def test_every_published_schema_is_current(name):
    path = Path(__file__).parents[2] / f"docs/schema/{name}.schema.json"
    again = f"run: python -m whyidle.model.schema {name} > {path}"
    assert path.read_text(encoding="utf-8") == schema.schema_text(name), again
    jsonschema.Draft202012Validator.check_schema(schema.make_schema(name))
