"""Fixes stay where a job has what they change, and go where it has not."""

import importlib
from dataclasses import replace

import msgspec
import pytest

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import (
    find_subjects,
    fit_subjects,
    keep_applicable_fixes,
)
from whyidle.model.diagnosis import Edit, Finding, Interval, Predicted, ProposedFix
from whyidle.model.knobs import KNOBS
from whyidle.model.loader_tables import Loading
from whyidle.model.pipeline_facts import Pipeline, PyDataset
from whyidle.model.process_facts import LoaderFacts, ProcessFacts
from whyidle.testing.builder import Builder

JAX_ALONE = frozenset({"jax", "python"})
FED = JAX_ALONE | {"loaders"}
TENSORFLOW = frozenset({"tensorflow", "keras", "python"})


def fix_of(*knobs):
    edits = [Edit(knob=knob, value=1) for knob in knobs]
    return ProposedFix(
        fix="some", summary="", edits=edits, consent="none", automatic=True, predicted=None, risk=""
    )


def knobs_kept(fix):
    return None if fix is None else [edit.knob for edit in fix.edits]


@pytest.mark.parametrize("subjects", [JAX_ALONE, FED, TENSORFLOW])
def test_every_knob_of_a_job_without_pytorch_is_offered_and_can_be_tried(subjects):
    tried = set()
    for knob in KNOBS.values():
        of = subjects & {*knob.subjects}
        fix = fit_subjects(fix_of(knob.id), subjects)
        assert (fix is not None) == bool(of), knob.id
        if fix is None or knob.by_people or not fix.automatic:
            continue
        family = importlib.import_module(f"whyidle.probe.knobs.{knob.id.partition('.')[0]}")
        assert callable(family.apply), knob.id
        tried.add(knob.id)
    assert {"gc.freeze", "gc.collect_interval_steps"} <= tried
    loaders = {"loader.workers", "loader.full_affinity", "loader.worker_threads", "dataset.cache"}
    assert (loaders <= tried) == ("loaders" in subjects)
    assert not any(knob.startswith(("torch.", "ddp.", "optimizer.")) for knob in tried)


def test_edits_of_what_a_job_lacks_are_left_out():
    fix = fit_subjects(fix_of("loader.workers", "torch.num_threads"), FED)
    assert knobs_kept(fix) == ["loader.workers"]
    assert fit_subjects(fix_of("loader.workers", "torch.num_threads"), JAX_ALONE) is None


def test_advice_and_variables_are_of_any_job():
    assert knobs_kept(fit_subjects(fix_of(), JAX_ALONE)) == []
    assert knobs_kept(fit_subjects(fix_of("env.OMP_NUM_THREADS"), JAX_ALONE))
    assert catalog.find_knob("knob.of_another_package").subjects == ()


def test_what_only_people_set_in_a_framework_is_advice_there():
    assert fit_subjects(fix_of("model.compile"), frozenset({"torch"})).automatic
    assert not fit_subjects(fix_of("model.compile"), JAX_ALONE).automatic


@pytest.mark.parametrize(
    ("framework", "loading", "process", "subjects"),
    [
        ("jax", Loading(), ProcessFacts(), {"jax", "python"}),
        ("jax", Loading(loaders=(LoaderFacts(workers=2),)), ProcessFacts(), FED),
        ("jax", Loading(), ProcessFacts(py_dataset=PyDataset()), {"jax", "python", "keras"}),
        ("tensorflow", Loading(), ProcessFacts(), TENSORFLOW),
        ("pytorch", Loading(), ProcessFacts(), {"torch", "loaders", "python"}),
        (
            "pytorch",
            Loading(),
            ProcessFacts(pipelines=(Pipeline(),)),
            {"torch", "loaders", "python", "tensorflow"},
        ),
        (None, Loading(), ProcessFacts(), None),
    ],
)
def test_a_job_has_the_subjects_that_its_recording_shows(framework, loading, process, subjects):
    built = Builder()
    with built.step():
        built.item()
    timeline = replace(built.timeline(), framework=framework, loading=loading, process=process)
    assert find_subjects(timeline) == subjects


@pytest.mark.parametrize(("left", "severity"), [(1.0, "info"), (1.2, "warning")])
def test_a_finding_whose_worthwhile_fix_does_not_apply_is_a_remark(left, severity):
    fixes = [
        replace_prediction(fix_of("torch.num_threads"), 1.5),
        replace_prediction(fix_of("gc.freeze"), left),
    ]
    finding = Finding(
        cause="some", family="host", bucket="host", severity="warning", headline="", where=[],
        lost=Interval(low=0.1, high=0.3), removal=None, confidence=0.9, evidence=[], fixes=fixes,
    )  # fmt: skip
    built = Builder()
    with built.step():
        built.op("add")
    job = replace(built.timeline(), framework="jax")
    (kept,) = keep_applicable_fixes([finding], Facts(job))
    assert [fix.edits[0].knob for fix in kept.fixes] == ["gc.freeze"]
    assert kept.severity == severity


def replace_prediction(fix, speedup):
    predicted = Predicted(speedup=speedup, low=1.0, high=2.0, method="")
    return msgspec.structs.replace(fix, predicted=predicted)
