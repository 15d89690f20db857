"""The JSON form is the contract itself: every key, null for absence, the same bytes each time."""

import json

import msgspec
import numpy as np
import pytest

from whyidle.model.diagnosis import Diagnosis
from whyidle.reports.json import render

KEYS = [
    "schema",
    "run",
    "device",
    "steps",
    "attribution",
    "utilization",
    "verdict",
    "findings",
    "abstentions",
    "trials",
    "coverage",
    "detail",
    "recording",
    "memory",
    "architecture",
]


def test_the_same_bytes_each_time(full, build):
    assert render(full) == render(build())


def test_keys_stand_in_the_order_of_the_contract(full):
    assert list(json.loads(render(full))) == KEYS


def test_what_was_not_measured_is_null(full):
    document = json.loads(render(full))
    assert document["utilization"]["gpu_util"] is None
    assert document["device"]["peak_flops"] is None


def test_reads_back_as_the_same_diagnosis(full, nasty):
    for diagnosis in (full, nasty):
        assert msgspec.json.decode(render(diagnosis), type=Diagnosis) == diagnosis


def test_names_are_kept_whatever_they_hold(nasty, nasty_text):
    assert json.loads(render(nasty))["verdict"]["headline"] == nasty_text


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_know_become_null(full, odd):
    steps = msgspec.structs.replace(full.steps, mean_s=odd)
    text = render(msgspec.structs.replace(full, steps=steps))
    assert json.loads(text, parse_constant=pytest.fail)["steps"]["mean_s"] is None


def test_a_scalar_of_an_array_library_is_its_number(full):
    coverage = msgspec.structs.replace(full.coverage, overhead_ratio=np.float64(0.25))
    document = json.loads(render(msgspec.structs.replace(full, coverage=coverage)))
    assert document["coverage"]["overhead_ratio"] == 0.25


def test_what_has_no_form_is_a_fault_of_ours(full):
    with pytest.raises((NotImplementedError, TypeError)):
        render(msgspec.structs.replace(full, trials=[object()]))
