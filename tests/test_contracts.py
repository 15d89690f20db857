"""Every registered cause and treatment keeps its contract."""

from functools import lru_cache

import pytest

from whyidle import catalog
from whyidle.engine.diagnose import diagnose
from whyidle.model.cause import cause as declare
from whyidle.testing import contracts, form_contracts
from whyidle.testing.jobs import SICK, healthy

CAUSES = sorted(catalog.causes())
TREATMENTS = sorted(catalog.treatments())


@lru_cache(maxsize=16)
def recorded(name: str):
    return SICK.get(name, healthy)().timeline()


@pytest.fixture(params=CAUSES)
def cause(request):
    return catalog.causes()[request.param]


def test_declaration(cause):
    contracts.check_declaration(cause)


def test_silent_on_a_healthy_job(cause):
    contracts.check_silent(cause, [recorded("healthy")])


def test_proofs_are_complete_deterministic_and_need_their_evidence(cause):
    for name in SICK:
        proof = contracts.run_cause(cause, [recorded(name)])
        if proof is not None:
            contracts.check_proof(cause, proof)
            contracts.check_deterministic(cause, [recorded(name)])
            contracts.check_abstains(cause, [recorded(name)])


@pytest.mark.parametrize("name", TREATMENTS)
def test_treatment(name):
    contracts.check_treatment(catalog.treatments()[name], catalog.causes())


def test_every_cause_has_a_treatment():
    treated = {cause for t in catalog.treatments().values() for cause in t.treats}
    assert not sorted(set(CAUSES) - treated)


@pytest.mark.parametrize("name", [*SICK, "healthy"])
def test_diagnosis_keeps_its_bounds_and_round_trips(name):
    diagnosis = diagnose([recorded(name)])
    contracts.check_bounds(diagnosis)
    contracts.check_round_trip(diagnosis)


def test_a_cause_must_declare_itself_in_the_vocabulary():
    with pytest.raises(ValueError, match="unknown bucket"):
        declare("x", bucket="weather", needs=("steps",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown signals"):
        declare("x", bucket="host", needs=("tea_leaves",))


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("name", catalog.names("importers"))
def test_importer(name, suffix, tmp_path):
    good = healthy().save(tmp_path / f"good{suffix}")
    form_contracts.check_importer(catalog.module("importers", name), good, tmp_path)


@pytest.mark.parametrize("job", ["synchronising", "healthy"])
@pytest.mark.parametrize("name", catalog.names("exporters"))
def test_exporter(name, job):
    form_contracts.check_exporter(catalog.module("exporters", name), diagnose([recorded(job)]))
