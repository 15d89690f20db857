"""Every cause has a sick and a healthy job in its own tests, and keeps its contract on them."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from whyidle import catalog
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing import contracts
from whyidle.testing.contracts import Pair, build_timelines

CAUSES = sorted(catalog.load_causes())


def load_pairs(path):
    """The pairs that a test file declares."""
    name = f"pairs_of_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PAIRS


PAIRS = {
    cause: pair
    for path in sorted(Path(__file__).parent.glob("*/test_*.py"))
    if "\nPAIRS = {" in path.read_text(encoding="utf-8")
    for cause, pair in load_pairs(path).items()
}


def test_no_cause_lacks_a_pair():
    assert sorted(PAIRS) == CAUSES


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_keeps_its_contract_on_its_pair(name):
    """And the diagnosis of each job is consistent, and the sick one is offered a fix."""
    cause = catalog.load_causes()[name]
    sick, healthy = (build_timelines(half()) for half in (PAIRS[name].sick, PAIRS[name].healthy))
    contracts.check_pair(cause, Pair(lambda: sick, lambda: healthy))
    for job in (sick, healthy):
        contracts.check_bounds(diagnose_job(job))
    fixes = [fix for fix in catalog.load_fixes().values() if name in fix.causes]
    proof = contracts.run_cause(cause, sick)
    proposals = [(fix, found) for fix in fixes if (found := fix.decide(proof)) is not None]
    assert proposals
    for fix, proposal in proposals:
        contracts.check_proposal(fix, proposal)


CAUSE = "graph-breaks"


def altered(test):
    """A cause whose judgement is another."""
    return replace(catalog.load_causes()[CAUSE], test=test)


def count_and_prove(facts):
    """Answers otherwise each time."""
    calls.append(facts)
    return replace(catalog.load_causes()[CAUSE].test(facts), confidence=1 / len(calls))


def change_and_prove(facts):
    """Overwrites what it reads."""
    proof = catalog.load_causes()[CAUSE].test(facts)
    facts.timeline.host.start[0] -= 1
    return proof


calls = []


def prove_with_certainty(facts):
    return replace(catalog.load_causes()[CAUSE].test(facts), confidence=2.0)


@pytest.mark.parametrize(
    ("test", "why"),
    [
        (lambda _: None, "is silent on its sick job"),
        (prove_with_certainty, "confidence 2.0"),
        (count_and_prove, CAUSE),
        (change_and_prove, "changes what it reads"),
    ],
)
def test_a_cause_that_breaks_its_contract_is_noticed(test, why):
    with pytest.raises(AssertionError, match=why):
        contracts.check_pair(altered(test), PAIRS[CAUSE])


def test_a_cause_that_blames_a_healthy_job_is_noticed():
    pair = replace(PAIRS[CAUSE], healthy=PAIRS[CAUSE].sick)
    with pytest.raises(AssertionError, match="blames a healthy job"):
        contracts.check_pair(catalog.load_causes()[CAUSE], pair)


def test_a_cause_that_guesses_is_noticed():
    cause = catalog.load_causes()[CAUSE]
    guessing = replace(cause, needs=("memory_events", *cause.needs))
    with pytest.raises(AssertionError, match="is silent"):
        contracts.check_pair(guessing, PAIRS[CAUSE])
