"""What several ranks cost each other, as watched ranks on a CPU tell it: with the line to blame."""

from dataclasses import replace

import numpy as np
import pytest

from cured_twins import covers, judge, judge_all, twin_speedup
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import CpuPace, HostKind
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

FORWARD, BACKWARD = "/job/train.py(20): train", "/job/train.py(21): train"
SLOW, STEP = "/job/train.py(31): train", "/job/train.py(40): train"


def exchange(guests, length=2):
    """They meet; the last to come waits only as long as the exchange takes."""
    end = max(guest.now for guest in guests) + ms(length)
    for guest in guests:
        with guest.call("gloo:all_reduce"):
            guest.wait(BACKWARD, end - guest.now)


def accumulating(exchanges):
    """One of two ranks: four micro-batches a step, the last ``exchanges`` of them exchanged."""
    guest = RecordedJob(rank="0", world_size="2")
    for _ in range(12):
        for number in range(4):
            guest.work(FORWARD, ms(4))
            with guest.call("whyidle::backward", HostKind.OP):
                guest.work(BACKWARD, ms(8))
                if number >= 4 - exchanges:
                    exchange([guest], 5)
        guest.step(STEP, ms(1))
    return guest


def test_exchanges_of_every_micro_batch():
    sick = accumulating(4)
    proof = judge("allreduce-every-microstep", sick)
    assert proof is not None
    assert proof.facts.micro_batches == 4
    assert [place.line for place in proof.where] == [21]
    assert covers(proof, twin_speedup(sick, accumulating(1)))
    assert judge("allreduce-every-microstep", accumulating(1)) is None


def uneven(exchanges, *extra):
    """Two ranks of four micro-batches a step, one of which has more to do in each."""
    guests = [RecordedJob(rank=str(rank), world_size="2") for rank in range(2)]
    for _ in range(30):
        for number in range(4):
            for more, guest in zip(extra, guests, strict=True):
                guest.backward(BACKWARD, ms(10 + more))
            if number >= 4 - exchanges:
                exchange(guests)
        for guest in guests:
            guest.step(STEP, ms(1))
    return [guest.timeline() for guest in guests]


def test_who_waits_for_a_slower_rank_waits_as_long_at_a_single_exchange():
    sick, cured = uneven(4, 0, 10), uneven(1, 0, 10)
    proof = judge_all("allreduce-every-microstep", sick)
    assert covers(proof, Facts(sick[0]).step_s / Facts(cured[0]).step_s)
    assert judge_all("rank-workload-imbalance", sick).high > proof.high


def test_who_runs_no_longer_than_the_others_is_not_held_up_by_python():
    """Its core was taken away, or the machine jitters: both ranks ran for as long."""
    held = together(("python", 0), ("python", 20))
    assert judge_all("late-rank", held).predicted.speedup > 1.2
    rounds = np.arange(1, 41)
    ends = rounds * int(Facts(held[0]).step_s * 1e9) - ms(1)
    alike = [replace(each, pace=CpuPace(ends, rounds * ms(21), rounds * 0)) for each in held]
    assert judge_all("late-rank", alike) is None
    longer = [
        replace(each, pace=CpuPace(ends, rounds * ms(21 + 20 * rank), rounds * 0))
        for rank, each in enumerate(held)
    ]
    assert judge_all("late-rank", longer).predicted.speedup > 1.2


def diagnosed(timelines):
    return {finding.cause: finding for finding in diagnose_job(timelines).findings}


def test_python_of_one_rank_is_lateness_not_everybodys_python():
    one = diagnosed(together(("python", 0), ("python", 20)))
    assert "late-rank" in one
    assert "python-overhead-in-step" not in one
    both = diagnosed(together(("python", 10), ("python", 20)))
    told = both["python-overhead-in-step"].fixes[0].predicted
    even = together(("python", 0), ("python", 10))
    sick = together(("python", 10), ("python", 20))
    gained = Facts(sick[0]).step_s / Facts(even[0]).step_s  # what one has beyond stays
    assert told.low <= gained <= told.high * 1.01


def taking_turns(spread, *, evenly=False, more=0.0):
    """Two ranks whose work differs from step to step by up to so much, and one has more of it."""
    chance = np.random.default_rng(3)
    guests = [RecordedJob(rank=str(rank), world_size="2") for rank in range(2)]
    ran, ends = np.zeros((2, 80), np.int64), np.zeros((2, 80), np.int64)
    for step in range(80):
        lengths = chance.uniform(1 - spread, 1 + spread, 2) + np.array([0.0, more])
        lengths = np.full(2, lengths.mean()) if evenly else lengths
        for rank, (length, guest) in enumerate(zip(lengths, guests, strict=True)):
            guest.work(FORWARD, ms(10 * length))
            guest.backward(BACKWARD, ms(10 * length))
            ran[rank, step] = guest._ran
        exchange(guests)
        ends[:, step] = guests[0].now
        for guest in guests:
            guest.step(STEP, ms(1))
    found = [guest.timeline() for guest in guests]
    return [
        replace(each, pace=CpuPace(ends[rank] - each.base_ns, ran[rank], 0 * ran[rank]))
        for rank, each in enumerate(found)
    ]


def test_turns_of_work_that_varies_are_won_and_turns_of_chance_are_not():
    """Steps that differ by more than a shared core makes them differ have unlike work."""
    sick, even = taking_turns(0.7), taking_turns(0.7, evenly=True)
    proof = judge_all("rank-workload-imbalance", sick)
    assert "take turns" in proof.headline
    assert proof.predicted.speedup > 1.05
    assert covers(proof, Facts(sick[0]).step_s / Facts(even[0]).step_s)
    jitter = taking_turns(0.15)
    assert (
        Job(tuple(Facts(each) for each in jitter)).imbalance.loss_interval[1] > 0.03
    )  # they do wait
    assert judge_all("rank-workload-imbalance", jitter) is None


def test_of_a_rank_with_more_work_chance_takes_nothing_away():
    """What it has beyond the other in every step is expected; what chance adds is not."""
    proof = judge_all("rank-workload-imbalance", taking_turns(0.1, more=0.4))
    assert proof.facts.rank == 1
    always = 10 * 0.4 / (20 * 1.4 + 3)  # half of what it has more, by the longer rank's step
    always *= 2 - 1 / 0.825  # dealt evenly it runs on both cores at once, each worth 82.5 %
    assert proof.predicted.speedup == pytest.approx(1 / (1 - always), rel=0.02)
    assert proof.predicted.low < proof.predicted.speedup < proof.predicted.high


def test_work_on_shared_cores_is_won_in_part_at_the_careful_end():
    """A rank that works alone has the core's other half: of what is dealt to a core worth 65 %,
    two ranks win 1 - 1 / 1.3 of it, not a half."""
    with_pace = taking_turns(0.0, more=0.4)
    without = [replace(each, pace=None) for each in with_pace]
    careful, whole = (
        1 - 1 / judge_all("rank-workload-imbalance", each).predicted.low
        for each in (with_pace, without)
    )
    assert careful == pytest.approx(whole * (1 - 1 / 1.3) / 0.5, rel=0.1)


def test_python_whose_end_looks_miss_is_not_taken_for_more_work():
    """They see the next operator instead: but the backward pass is no longer."""

    def blurred(longer):
        guests = [RecordedJob(rank=str(rank), world_size="2") for rank in range(2)]
        for _ in range(40):
            guests[1].python(SLOW, ms(10))
            guests[1].work(FORWARD, ms(10))
            for rank, guest in enumerate(guests):
                guest.work(FORWARD, ms(10))
                guest.backward(BACKWARD, ms(10 + longer * rank))
            exchange(guests)
            for guest in guests:
                guest.step(STEP, ms(1))
        return [guest.timeline() for guest in guests]

    assert judge_all("late-rank", blurred(0)) is not None
    assert judge_all("rank-workload-imbalance", blurred(0)) is None
    assert judge_all("rank-workload-imbalance", blurred(20)) is not None


def together(*slow, both=("work", 10)):
    """Two ranks: what both do in every step, and each beside, as (what, ms)."""
    guests = [RecordedJob(rank=str(rank), world_size="2") for rank in range(2)]
    for _ in range(40):
        for beside, guest in zip(slow, guests, strict=True):
            for (what, length), line in ((both, FORWARD), (beside, SLOW)):
                getattr(guest, what)(line, ms(length))
            guest.backward(BACKWARD, ms(10))
        exchange(guests)
        for guest in guests:
            guest.step(STEP, ms(1))
    return [guest.timeline() for guest in guests]


@pytest.mark.parametrize(
    ("what", "cured", "cause"),
    [("wait", (0, 0), "late-rank"), ("work", (10, 10), "rank-workload-imbalance")],
)
def test_the_line_that_makes_a_rank_late(what, cured, cause):
    sick, even = (together(*((what, each) for each in beside)) for beside in ((0, 20), cured))
    proof = judge_all(cause, sick)
    assert proof is not None
    (place,) = proof.where
    assert (place.rank, place.line) == (1, 31)
    assert covers(proof, Facts(sick[0]).step_s / Facts(even[0]).step_s)
    assert judge_all(cause, even) is None
    (other,) = {"late-rank", "rank-workload-imbalance"} - {cause}
    assert judge_all(other, sick) is None


def test_the_line_is_that_of_what_holds_it_up_not_the_longest():
    ranks = together(("wait", 0), ("wait", 20), both=("python", 40))
    proof = judge_all("late-rank", ranks)
    assert [(place.rank, place.line) for place in proof.where] == [(1, 31)]


def test_ranks_on_cpus_exchange_less_often_or_in_half_the_bytes():
    def exchanging(every):
        guests = [RecordedJob(rank=str(rank), world_size="2") for rank in range(2)]
        for number in range(40):
            for guest in guests:
                guest.backward(BACKWARD, ms(20))
            if number % every == every - 1:
                exchange(guests, 20)
                for guest in guests:
                    guest.step(STEP, ms(1))
        return [guest.timeline() for guest in guests]

    sick, cured = exchanging(1), exchanging(2)
    proof = judge_all("exposed-gradient-comm", sick)
    plans = catalog.load_fixes()
    (edit,) = plans["gradient-compression"].decide(proof).edits
    assert edit.value == "fp16_compress"
    told = plans["fewer-exchanges"].decide(proof).predicted
    batch_s = Facts(cured[0]).step_s / 2 + 0.5e-3  # the optimizer is spared every other time, too
    assert told.low <= Facts(sick[0]).step_s / batch_s <= told.high
    assert told.speedup > 1.1


def test_a_search_for_unused_parameters_is_not_python_of_the_step():
    def searching(name):
        guests = [RecordedJob(rank=str(rank), world_size="2") for rank in range(2)]
        for _ in range(40):
            for guest in guests:
                with guest.call(name):
                    guest.python(FORWARD, ms(5))
                guest.backward(BACKWARD, ms(20))
            exchange(guests)
            for guest in guests:
                guest.step(STEP, ms(1))
        return diagnosed([guest.timeline() for guest in guests])

    found = searching("reducer::search_unused_parameters")
    assert "ddp-config-overhead" in found
    assert not {"python-overhead-in-step", "python-between-operators"} & set(found)
    assert "python-overhead-in-step" in searching("metrics")
