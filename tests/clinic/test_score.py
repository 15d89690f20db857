"""Arithmetic of the score, on made-up outcomes whose numbers are known."""

import msgspec
import pytest

from clinic.account import attribution, attribution_error
from clinic.card import Budget, Case, Fault
from clinic.judge import binding, forecasts, harmed, judge, kind_of
from clinic.outcome import Evidence, Gain, Named, Outcome
from clinic.rivals import (
    product,
)
from clinic.score import forecasting, score
from whyidle.model.buckets import BUCKETS

FAMILIES = {
    "sync-checkpoint": ("interruption", "interruption"),
    "dataloader-no-workers": ("input", "input"),
    "dataloader-too-few-workers": ("input", "input"),
    "python-gc-pauses": ("interruption", "interruption"),
    "unfused-optimizer": ("host", "host"),
    "memory-leak-growth": ("memory", "interruption"),
}


def fault(cause, **more):
    family, bucket = FAMILIES.get(cause, ("host", "host"))
    return Fault(
        cause=cause, family=family, buckets=(bucket,), locus="somewhere", fix="mend it", **more
    )


def case(*causes, kind="single", number=1):
    return Case(
        id=f"c{number:04}", level="only", workload="rows", kind=kind, modes=("cpu",),
        consent="none", measure="steps", options={}, inject=tuple(map(fault, causes)), onset="",
        recording="", twin="", budget=Budget(),
    )  # fmt: skip


def finding(cause, speedup=1.5, low=None, high=None, severity="warning"):
    family, bucket = FAMILIES[cause]
    predicted = {"mend": (speedup, low or speedup - 0.1, high or speedup + 0.1)}
    return Named(
        cause=cause, family=family, bucket=bucket, severity=severity, lost=0.3, predicted=predicted
    )


def evidence(device="cpu", loaders=(), settings=None, memory=None, **reasons):
    shares = dict.fromkeys(BUCKETS, 0.0) | {"compute": 1.0 - sum(reasons.values())}
    for reason, share in reasons.items():
        shares[{"loader": "input", "gc": "interruption", "python": "host"}[reason]] += share
    reasons = {"compute": shares["compute"], **reasons}
    return Evidence(
        attribution=shares, reasons=reasons, device=device, cores=2.0, loaders=list(loaders),
        settings=settings or {}, memory_share=memory,
    )  # fmt: skip


def outcome(*named, gain=1.5, gains=None, seen=None, **more):
    gains = {"cured": gain, **(gains or {})} if gain else {}
    more = {"mode": "cpu", **more}
    return Outcome(
        id="c0001", made="2026-01-01", options={}, named=list(named),
        gains={name: Gain([(100.0, 100.0 * g), (50.0, 50.0 * g)]) for name, g in gains.items()},
        evidence=seen or evidence(), **more,
    )  # fmt: skip


def mark(job, came):
    return judge(job, came, product(came))


def test_the_first_finding_counts_and_remarks_do_not():
    job = case("sync-checkpoint")
    first = mark(job, outcome(finding("sync-checkpoint"), finding("python-gc-pauses")))
    assert (first.top1, first.top3, first.family1, first.bucket1) == (True, True, True, True)
    second = mark(job, outcome(finding("python-gc-pauses"), finding("sync-checkpoint")))
    assert (second.top1, second.top3, second.family1, second.bucket1) == (False, True, True, True)
    remark = mark(job, outcome(finding("sync-checkpoint", severity="info")))
    assert (remark.top1, remark.top3, remark.said) == (False, False, "none")


def test_a_leak_is_told_as_a_remark_and_is_no_decoy():
    leak = finding("memory-leak-growth", 1.0, severity="info")
    job, came = case("memory-leak-growth"), outcome(leak, gain=1.0)
    assert mark(job, came).top1
    assert not judge(case(kind="healthy"), came, product(came)).alarm


def test_without_a_finding_the_phase_still_counts():
    job = case("dataloader-no-workers")
    assert mark(job, outcome(seen=evidence(loader=0.4))).bucket1
    assert not mark(job, outcome(seen=evidence(gc=0.4))).bucket1


def test_what_gains_too_little_is_a_decoy_and_naming_it_an_alarm():
    job, came = case("sync-checkpoint"), outcome(finding("sync-checkpoint"), gain=1.01)
    assert kind_of(job, came) == "decoy"
    assert mark(job, came).alarm
    assert mark(job, came).top1 is None
    assert not mark(job, outcome(finding("sync-checkpoint", 1.02), gain=1.01)).alarm


def test_a_decoy_that_costs_is_left_out():
    job = case("sync-checkpoint", kind="decoy")
    assert kind_of(job, outcome(gain=1.2)) == "void"
    assert kind_of(job, outcome(gain=1.02)) == "decoy"
    assert score([(job, outcome(gain=1.2))]).tables[0].alarms_decoy is None


def test_a_healthy_job_whose_device_idled_is_left_out_whatever_was_said():
    job = case(kind="healthy")
    busy, idle = {"compute": 0.95, "transfer": 0.03}, {"compute": 0.9, "transfer": 0.03}
    for said in ([], [finding("sync-checkpoint")]):
        came = outcome(*said)
        assert kind_of(job, came) == "healthy"  # no device that told
        assert kind_of(job, msgspec.structs.replace(came, truth=busy)) == "healthy"
        assert kind_of(job, msgspec.structs.replace(came, truth=idle)) == "void"
    sick = msgspec.structs.replace(outcome(gain=1.2), truth=idle)
    assert kind_of(case("sync-checkpoint"), sick) == "single"


def test_a_cure_whose_runs_scatter_is_neither_worth_nothing_nor_harm():
    job = case("sync-checkpoint")
    runs = {"cured": Gain([(1.0, 0.66), (1.0, 0.94), (1.0, 0.95), (1.0, 1.14)])}
    came = msgspec.structs.replace(outcome(finding("sync-checkpoint")), gains=runs)
    assert kind_of(job, came) == "void"
    assert harmed(job, came) is None
    alike = {"cured": Gain([(1.0, 0.93), (1.0, 0.94), (1.0, 0.95)])}
    came = msgspec.structs.replace(came, gains=alike)
    assert kind_of(job, came) == "decoy"
    assert harmed(job, came)
    once_faster = {"cured": Gain([(1.0, 0.93), (1.0, 0.94), (1.0, 1.01)])}
    came = msgspec.structs.replace(came, gains=once_faster)
    assert harmed(job, came) is False


def test_the_prediction_judged_is_that_of_the_cards_cure():
    planted = fault("unfused-optimizer", also=("python-gc-pauses",), fix_id="fuse")
    job = msgspec.structs.replace(case(), inject=(planted,))
    other, own = finding("python-gc-pauses", 4.0), finding("unfused-optimizer")
    own = msgspec.structs.replace(own, predicted={"fuse": (1.3, 1.2, 1.4)})
    (found,) = forecasts(job, outcome(other, own, gain=1.3))
    assert found.predicted == 1.3
    assert not forecasts(job, outcome(other, gain=1.3))  # another cure's, which was not measured


def test_of_two_the_one_whose_cure_brings_more_is_first():
    job = case("sync-checkpoint", "dataloader-no-workers", kind="masked")
    came = outcome(
        finding("dataloader-no-workers"), gain=2.0, gains={"cured 0": 1.1, "cured 1": 1.6}
    )
    assert [f.cause for _, f in binding(job, came)] == ["dataloader-no-workers"]
    assert mark(job, came).top1
    assert mark(job, came).reached == pytest.approx(0.678, abs=0.001)  # log 1.6 / log 2
    even = outcome(gain=2.0, gains={"cured 0": 1.50, "cured 1": 1.52})
    assert len(binding(job, even)) == 2


def test_all_that_is_named_is_weighed_against_all_that_is_planted():
    gc_pauses, saves, loader = map(
        finding, ("python-gc-pauses", "sync-checkpoint", "dataloader-no-workers")
    )
    two = case("sync-checkpoint", "python-gc-pauses", kind="masked")
    both = (two, outcome(gc_pauses, saves, gain=0))
    half = (two, outcome(saves, loader, gain=0))
    assert mark(*both).labels == (2, 0, 0)
    assert mark(*half).labels == (1, 1, 1)
    one = (case("dataloader-no-workers"), outcome(loader, gc_pauses))
    table = score([both, half, one]).tables[0]
    assert table.f1_several == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert table.f1 == pytest.approx(2 * 4 / (2 * 4 + 2 + 1))
    assert score([(case(kind="healthy"), outcome(gain=0))]).tables[0].f1 is None
    twice = msgspec.structs.replace(
        case("dataloader-no-workers"),
        inject=(fault("dataloader-no-workers", also=("dataloader-too-few-workers",)),),
    )
    assert mark(twice, outcome(loader, finding("dataloader-too-few-workers"))).labels == (1, 0, 0)


def test_unknown_causes_want_silence_in_the_right_place():
    job = case("", kind="unknown")
    assert mark(job, outcome(gain=0, bound="host")).abstained
    assert mark(job, outcome(gain=0, seen=evidence(python=0.5))).abstained
    assert not mark(job, outcome(gain=0, seen=evidence(loader=0.5))).abstained
    assert not mark(job, outcome(finding("unfused-optimizer"), gain=0)).abstained


def test_failed_cases_count_as_errors_and_nowhere_else():
    pairs = [(case("sync-checkpoint"), outcome(error="too long"))]
    found = score([*pairs, (case(kind="healthy"), outcome(gain=0))])
    assert (found.errors, found.counts, found.tables[0].top1) == (1, {"healthy": 1}, None)
    assert found.tables[0].alarms_healthy == 0.0


def test_predictions_are_compared_with_what_was_measured():
    (told,) = forecasts(case("sync-checkpoint"), outcome(finding("sync-checkpoint", 2.0), gain=1.6))
    assert told.error == pytest.approx(0.5 - 0.625)
    assert told.relative == pytest.approx(0.8 - 1.0)
    assert not told.covered
    (wide,) = forecasts(
        case("sync-checkpoint"), outcome(finding("sync-checkpoint", 2.0, 1.5, 3.0), gain=1.6)
    )
    assert wide.covered
    found = forecasting([told, wide])
    assert found.bias == pytest.approx(-0.125)
    assert found.covered == 0.5
    assert forecasting([]) is None


def seen_unknown(**shares):
    told = dict.fromkeys(BUCKETS, 0.0) | shares
    does = {"compute": told["compute"], "copy": told["transfer"]}
    return msgspec.structs.replace(evidence(), attribution=told, reasons=does)


def test_what_is_said_to_be_unknown_is_no_error_of_what_is_told_too_small():
    truth = {"compute": 0.8, "communication": 0.0, "transfer": 0.1}
    rest = {"truth": truth, "gain": 0}
    honest = outcome(seen=seen_unknown(compute=0.5, unknown=0.4, host=0.1), **rest)
    assert attribution_error(honest) == 0.0
    short = outcome(seen=seen_unknown(compute=0.5, unknown=0.1, host=0.4), **rest)
    assert attribution_error(short) == pytest.approx(0.2)
    much = outcome(seen=seen_unknown(compute=0.6, transfer=0.3, unknown=0.1), **rest)
    assert attribution_error(much) == pytest.approx(0.2)  # nothing makes up for it
    found = attribution([honest, short, much, outcome()])
    assert (found.count, found.within) == (3, 1)
    assert found.worst == pytest.approx(0.2)
    assert found.told_worst == pytest.approx(0.3)
    assert (found.unknown, found.unknown_most) == (pytest.approx(0.2), 0.4)


def test_harm_is_a_cure_that_was_promised_to_help_and_did_not():
    job = case("sync-checkpoint")
    slower = score([(job, outcome(finding("sync-checkpoint"), gain=0.9))])
    assert (slower.advised, slower.harmed) == (1, 1)
    even = score([(job, outcome(finding("sync-checkpoint"), gain=0.99))])
    assert (even.advised, even.harmed) == (1, 0)
    remark = score([(job, outcome(finding("sync-checkpoint", 1.02), gain=0.9))])
    assert (remark.advised, remark.harmed) == (0, 0)  # nothing was promised
    other = score([(job, outcome(finding("python-gc-pauses"), gain=0.9))])
    assert other.advised == 0  # what it would bring was not measured
