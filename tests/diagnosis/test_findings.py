"""How grave a finding is, and which of two that explain the same time claims it."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from msgspec.structs import replace as replace_fields

from whyidle import catalog
from whyidle.diagnosis.findings import CRITICAL, RISKY, ProvenCause, findings_of, grade_severity
from whyidle.diagnosis.prediction_width import BucketSpread
from whyidle.model.buckets import BUCKETS
from whyidle.model.cause import WORTH, Proof
from whyidle.model.diagnosis import ROUNDED, Predicted, ProposedFix
from whyidle.model.fix import Proposal
from whyidle.model.proof_facts import HostFacts, ProofFacts, TransferFacts


def judged(speedup, low):
    predicted = Predicted(speedup=speedup, low=low, high=2.0, method="of this test")
    proof = Proof("slow", predicted, (), 0.9, low=0.0, high=0.5)
    return ProvenCause(catalog.load_causes()["dataloader-no-workers"], proof, None, 1.0)


def offered(speedup, low):
    predicted = Predicted(speedup=speedup, low=low, high=2.0, method="of this test")
    return ProposedFix(
        fix="some", summary="do it", edits=[], consent="none", automatic=True,
        predicted=predicted, risk="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("speedup", "low", "told"),
    [
        (1.2, 1.0, "warning"),
        (1.2, RISKY, "warning"),
        (1.2, RISKY - 0.01, "info"),
        (1.02, 1.0, "info"),
        (1.5, 1.0, "critical"),
    ],
)
def test_what_may_slow_a_job_down_is_a_remark(speedup, low, told):
    assert grade_severity(judged(speedup, low), 0.5, []) == told


def test_the_best_fix_that_does_no_harm_decides():
    risky, sure = offered(1.4, 0.7), offered(1.2, 1.1)
    assert grade_severity(judged(1.5, 1.0), 0.5, [risky]) == "info"
    assert grade_severity(judged(1.5, 1.0), 0.5, [risky, sure]) == "warning"
    better = offered(1.45, 1.1)
    assert grade_severity(judged(1.5, 1.0), 0.5, [risky, better]) == "critical"


def test_a_fix_that_may_change_what_is_learned_counts_by_its_careful_end():
    rarer = replace_fields(offered(1.05, 1.01), consent="convergence")
    assert grade_severity(judged(1.05, 1.0), 0.5, [rarer]) == "info"
    assert grade_severity(judged(1.05, 1.0), 0.5, [rarer, offered(1.05, 1.01)]) == "warning"
    sure = replace_fields(offered(1.5, 1.1), consent="convergence")
    assert grade_severity(judged(1.5, 1.0), 0.5, [sure]) == "warning"


SLOW = SimpleNamespace(attribution={"transfer": 0.6, "host": 0.4})
"""a job that waits for copies for six tenths of its time"""


def facts_of(cause, values):
    kinds = {"transfer": TransferFacts, "host": HostFacts}
    return kinds[catalog.load_causes()[cause].family](**values) if values else ProofFacts()


def proven(cause, speedup, high, **facts):
    predicted = Predicted(speedup=speedup, low=1.0, high=speedup, method="of this test")
    proof = Proof("slow", predicted, (), facts=facts_of(cause, facts), low=0.0, high=high)
    return ProvenCause(catalog.load_causes()[cause], proof, None, 1.0)


def with_low(item, low):
    return replace(item, proof=replace(item.proof, low=low))


@pytest.mark.parametrize(
    ("packed", "first"),
    [(2.5, "oversized-or-fragmented-h2d"), (1.25, "blocking-h2d-copy")],
)
def test_a_fix_by_hand_claims_first_only_where_it_wins_far_more(packed, first):
    hidden = proven("blocking-h2d-copy", 1.2, 0.6, without_overlap=1 / 6)
    many = proven("oversized-or-fragmented-h2d", packed, 0.5, fragmented=True)
    for order in ([hidden, many], [many, hidden]):
        found = findings_of(SLOW, order)
        assert found[0].cause == first
        assert sum(finding.lost.high for finding in found) == pytest.approx(0.6)


def test_what_a_fix_wins_at_best_was_lost_as_far_as_its_bucket_has_time_left():
    """Of six tenths spent on copies the cause claims three; its fix wins half of the step."""
    alone = findings_of(SLOW, [proven("blocking-h2d-copy", 2.0, 0.3, without_overlap=0.5)])[0]
    assert alone.lost.high == pytest.approx(0.5)
    assert not alone.exceeds_bucket
    more = findings_of(SLOW, [proven("blocking-h2d-copy", 4.0, 0.3, without_overlap=0.75)])[0]
    assert more.lost.high == pytest.approx(0.6)
    assert more.exceeds_bucket


@pytest.mark.parametrize(
    ("least", "first"),
    [(0.05, "blocking-h2d-copy"), (0.15, "launch-bound-small-kernels")],
)
def test_the_middle_of_the_cost_leads_and_not_its_upper_end(least, first):
    wide = with_low(proven("launch-bound-small-kernels", 1.3, 0.3), least)
    certain = with_low(proven("blocking-h2d-copy", 1.25, 0.2), 0.18)
    for order in ([wide, certain], [certain, wide]):
        assert findings_of(SLOW, order)[0].cause == first


def test_what_another_finding_claims_is_not_taken_from_it():
    many = proven("oversized-or-fragmented-h2d", 1.25, 0.5, fragmented=True)
    found = findings_of(SLOW, [proven("blocking-h2d-copy", 2.0, 0.3, without_overlap=0.5), many])
    assert {one.cause: pytest.approx(one.lost.high) for one in found} == {
        "oversized-or-fragmented-h2d": 0.3,
        "blocking-h2d-copy": 0.3,
    }
    assert [one.cause for one in found if one.exceeds_bucket] == ["blocking-h2d-copy"]


def test_what_changes_what_is_learned_claims_last_whatever_it_wins():
    small = proven("batch-too-small", 5.0, 0.4)
    launched = proven("launch-bound-small-kernels", 1.3, 0.3)
    alone = findings_of(SLOW, [small])[0]
    assert {each.consent for each in alone.fixes} == {"convergence"}
    found = findings_of(SLOW, [small, launched])
    assert [one.cause for one in found] == ["launch-bound-small-kernels", "batch-too-small"]
    assert [one.lost.high for one in found] == [0.3, pytest.approx(0.1)]


@pytest.mark.parametrize(
    ("cause", "told"), [("debug-mode-left-on", True), ("python-overhead-in-step", False)]
)
def test_what_the_process_says_of_itself_is_told_though_its_bucket_holds_no_time(cause, told):
    full = SimpleNamespace(attribution={"compute": 1.0, "host": 0.0, "interruption": 0.0})
    found = findings_of(full, [proven(cause, 9.0, 0.9, mode="anomaly_mode")])
    assert [one.cause for one in found] == [cause] * told
    assert [one.severity for one in found] == ["warning"] * told


def test_more_cores_are_asked_for_only_where_nothing_cheaper_recovers_the_time():
    full = SimpleNamespace(attribution={"input": 0.5})
    asks, cached = proven("cpu-starved-allocation", 1.9, 0.5), proven("uncached-pipeline", 1.5, 0.5)
    assert [one.cause for one in findings_of(full, [asks])] == ["cpu-starved-allocation"]
    assert [one.cause for one in findings_of(full, [asks, cached])] == ["uncached-pipeline"]


def test_removal_is_the_ceiling_over_all_fixes():
    facts = {"exposed": 0.3, "without_overlap": 0.3}
    (finding,) = findings_of(SLOW, [proven("blocking-h2d-copy", 1.1, 0.3, **facts)])
    assert finding.removal.speedup > 1.1  # a fix wins more than the cause itself claims
    offers = [fix.predicted for fix in finding.fixes if fix.predicted and not fix.changes_batch]
    assert offers
    for name in ("speedup", "low", "high"):
        assert all(getattr(one, name) <= getattr(finding.removal, name) for one in offers)


@pytest.mark.parametrize(("low", "told"), [(2.0, 4.0), (1.2, None)])
def test_removal_is_the_cause_s_own_ceiling_and_unknown_where_it_is_too_wide(low, told):
    item = proven("blocking-h2d-copy", 1.1, 0.3)
    removal = Predicted(speedup=4.0, low=low, high=5.0, method="made up")
    absent = replace(item, proof=replace(item.proof, removal=removal))
    (finding,) = findings_of(SLOW, [absent])
    assert (finding.removal.low, finding.removal.high) == (low, 5.0)
    assert finding.removal.speedup == told
    assert all(fix.predicted.speedup < 1.2 for fix in finding.fixes if fix.predicted)


def any_proof(choose):
    """A proof with any cost, and gains that its models or chance put above or below it."""
    cost = choose.uniform(0.0, 0.95)
    ends = sorted(choose.uniform(1.0, 6.0) for _ in range(3))
    predicted = Predicted(low=ends[0], speedup=ends[1], high=ends[2], method="of this test")
    removal = None
    if choose.random() < 0.5:
        ends = sorted(choose.uniform(1.0, 6.0) for _ in range(3))
        removal = Predicted(low=ends[0], speedup=ends[1], high=ends[2], method="of this test")
    proof = Proof("slow", predicted, (), removal=removal, low=choose.uniform(0.0, cost), high=cost)
    share = choose.uniform(0.05, 0.9)
    scatter = BucketSpread(share, choose.uniform(0.0, share))
    return ProvenCause(choose.choice(CAUSES), proof, None, choose.choice([0.5, 1.0]), scatter)


CAUSES = list(catalog.load_causes().values())


def test_no_gain_exceeds_the_cost_and_what_a_model_says_is_recovered_beside_it():
    choose = random.Random(1)
    for _ in range(400):
        items = [any_proof(choose) for _ in range(3)]
        job = SimpleNamespace(attribution={bucket: choose.random() for bucket in BUCKETS})
        by_cause = {item.cause.id: item for item in items}
        for finding in findings_of(job, list(by_cause.values())):
            item, gain = by_cause[finding.cause], finding.removal
            proof = item.proof
            models = [one.high for one in (proof.predicted, proof.removal) if one]
            models += [plan.predicted.high for _, plan in item.decisions[0] if plan.predicted]
            assert gain.high <= max(1 / (1 - proof.high), *models) * (1 + 1e-9)
            assert finding.best_saving <= finding.lost.high + ROUNDED or finding.exceeds_bucket
            for fix in (one.predicted for one in finding.fixes if not one.changes_batch):
                assert fix is None or (fix.low <= gain.low and fix.high <= gain.high)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.61), (0.05, 0.25), (0.05, 0.61)])
def test_only_what_is_known_to_cost_much_is_critical(cause, low, high):
    """Of every cause. Its fixes may raise the low end, by what they save at least."""
    predicted = Predicted(speedup=2.0, low=1.0, high=2.5, method="of this test")
    item = ProvenCause(cause, Proof("slow", predicted, (), 0.9, low=low, high=high), None, 1.0)
    (finding,) = findings_of(SimpleNamespace(attribution={cause.bucket: high}), [item])
    is_sure = finding.lost.low >= WORTH and finding.expected_loss >= CRITICAL - ROUNDED
    assert finding.severity != "critical" or is_sure
    if not finding.fixes and cause.bucket != "compute":
        assert finding.severity == ("critical" if is_sure else "warning")


def test_a_critical_finding_is_likely_and_surely_worth_a_change():
    choose = random.Random(2)
    for _ in range(400):
        job = SimpleNamespace(attribution={bucket: choose.random() for bucket in BUCKETS})
        for finding in findings_of(job, [any_proof(choose)]):
            if finding.severity == "critical":
                assert finding.lost.low >= WORTH
                assert finding.expected_loss >= CRITICAL - ROUNDED


@pytest.mark.parametrize(("hopeful", "first"), [(1.3, "by hand"), (3.0, "by itself")])
def test_a_weaker_automatic_fix_stands_first_only_where_it_may_be_as_strong(hopeful, first):
    item = proven("blocking-h2d-copy", 1.1, 0.3)
    plans = [(True, 1.2, hopeful), (False, 2.0, 2.2)]
    item.__dict__["decisions"] = (
        [
            (
                SimpleNamespace(id="by itself" if automatic else "by hand", consent="none"),
                Proposal(
                    "do it",
                    automatic=automatic,
                    predicted=Predicted(speedup=gain, low=1.0, high=high, method="of this test"),
                ),
            )
            for automatic, gain, high in plans
        ],
        [],
    )
    (finding,) = findings_of(SLOW, [item])
    assert finding.fixes[0].fix == first
