"""Every registered cause and fix keeps its contract."""

import json
from functools import lru_cache
from pathlib import Path

import exports
import plain_traces
import profiles
import pytest

import form_contracts
from imagined_jobs import SICK, healthy
from whyidle import catalog
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.cause import cause as declare
from whyidle.probe.core.recorder import Recorder
from whyidle.testing import contracts

CAUSES = sorted(catalog.load_causes())
FIXES = sorted(catalog.load_fixes())


@lru_cache(maxsize=16)
def recorded(name: str):
    return SICK.get(name, healthy)().timeline()


@pytest.fixture(params=CAUSES)
def cause(request):
    return catalog.load_causes()[request.param]


def test_declaration(cause):
    contracts.check_declaration(cause)


def test_silent_on_a_healthy_job(cause):
    contracts.check_silent(cause, [recorded("healthy")])


@pytest.mark.parametrize("name", FIXES)
def test_fix(name):
    contracts.check_fix(catalog.load_fixes()[name], catalog.load_causes())


@pytest.mark.parametrize("name", [*SICK, "healthy"])
def test_diagnosis_keeps_its_bounds_and_round_trips(name):
    diagnosis = diagnose_job([recorded(name)])
    contracts.check_bounds(diagnosis)
    contracts.check_round_trip(diagnosis)


def test_a_cause_must_declare_itself_in_the_vocabulary():
    with pytest.raises(ValueError, match="unknown bucket"):
        declare("x", bucket="weather", needs=("steps",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown signals"):
        declare("x", bucket="host", needs=("tea_leaves",))


def probed(folder: Path) -> Path:
    recorder = Recorder(str(folder))
    recorder.facts = {"device": "cpu"}
    for step in range(4):
        begin = step * 1_000_000
        recorder.add((begin, begin + 900_000, 1, recorder.name_number("whyidle::backward"), 1))
        stepped = recorder.name_number("Optimizer.step#SGD.step")
        recorder.add((begin + 900_000, begin + 950_000, 1, stepped, 3))
    recorder.flush_records()
    return next(folder.glob("*.spans"))


SAMPLES = {
    "kineto.json": lambda folder: healthy().save(folder / "good.json"),
    "kineto.json.gz": lambda folder: healthy().save(folder / "good.json.gz"),
    "probe": probed,
    "xplane": lambda folder: _written(folder / "good.xplane.pb", profiles.gpu_job()),
    "nsys": lambda folder: exports.job(41, 57).write(folder / "good.sqlite"),
    "legacy_autograd": lambda folder: _written(
        folder / "good.json", json.dumps(plain_traces.legacy()).encode()
    ),
    "ascend": lambda folder: _written(
        folder / "good.json", json.dumps(plain_traces.npu()).encode()
    ),
}


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("sample", SAMPLES)
def test_importer(sample, tmp_path):
    importer = catalog.plugin_module("importers", sample.split(".")[0])
    form_contracts.check_importer(importer, SAMPLES[sample](tmp_path), tmp_path)


def test_every_importer_has_a_sample():
    assert {sample.split(".")[0] for sample in SAMPLES} == set(catalog.plugin_names("importers"))


@pytest.mark.parametrize("job", ["synchronising", "healthy"])
@pytest.mark.parametrize("name", catalog.plugin_names("exporters"))
def test_exporter(name, job):
    form_contracts.check_exporter(
        catalog.plugin_module("exporters", name), diagnose_job([recorded(job)])
    )
