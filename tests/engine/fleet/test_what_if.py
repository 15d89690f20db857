"""Policies on small clusters whose right answer can be counted by hand."""

from __future__ import annotations

import random

import pytest

from whyidle.engine.fleet import replay
from whyidle.engine.fleet.placement import Cluster
from whyidle.engine.fleet.replay import pile_jobs, replay_jobs
from whyidle.engine.fleet.what_if import parse_policy, replay_ledger
from whyidle.errors import InputError, UsageError
from whyidle.model.fleet_rows import FleetJob, LedgerRows, NodeRow

simpy = pytest.importorskip("simpy")


def job(name: str, submit: float, length: float, gpus: int = 1, **fields) -> FleetJob:
    start = fields.pop("start", submit)
    return FleetJob(
        job=name,
        ledger="csv",
        state="completed",
        submit_ms=round(submit * 1000),
        start_ms=round(start * 1000),
        end_ms=round((start + length) * 1000),
        gpus=gpus,
        **fields,
    )


def nodes(*gpus: int) -> list[NodeRow]:
    return [NodeRow(node=f"n{i}", gpus=count) for i, count in enumerate(gpus)]


def waits(jobs, cluster, words):
    queue = replay_jobs(jobs, cluster, parse_policy(words))
    return queue.mean_wait_s * len(jobs)


def test_jobs_wait_for_their_turn():
    jobs = [job("a", 0, 10), job("b", 1, 10), job("c", 2, 10)]
    assert waits(jobs, nodes(1), "fifo") == pytest.approx(9 + 18)
    assert waits(jobs, nodes(3), "fifo") == 0


def test_backfilling_starts_what_ends_before_the_first_one_can_begin():
    jobs = [
        job("running", 0, 100, gpus=3),
        job("wide", 1, 10, gpus=4),
        job("short", 2, 50),
        job("long", 3, 200),
    ]
    fifo = replay_jobs(jobs, nodes(4), parse_policy("fifo"))
    backfill = replay_jobs(jobs, nodes(4), parse_policy("backfill"))
    assert fifo.mean_wait_s * 4 == pytest.approx(99 + 108 + 107)
    assert backfill.mean_wait_s * 4 == pytest.approx(99 + 0 + 107)


def test_best_fit_keeps_a_node_free_for_the_large_job():
    jobs = [job("a", 0, 100, gpus=2), job("b", 1, 100, gpus=4)]
    cluster = nodes(4, 2)
    assert waits(jobs, cluster, "first-fit") == pytest.approx(99)
    assert waits(jobs, cluster, "best-fit") == 0
    spread = replay_jobs(jobs, nodes(4, 4), parse_policy("spread"))
    assert spread.mean_wait_s == 0


def test_time_in_which_free_devices_are_of_no_use_is_counted():
    jobs = [job("a", 0, 10, gpus=1), job("b", 0, 10, gpus=1), job("c", 0, 10, gpus=2)]
    spread = replay_jobs(jobs, nodes(2, 2), parse_policy("spread"))
    assert spread.blocked == pytest.approx(0.5)  # ten of twenty seconds


def test_shares_and_slices_of_devices():
    jobs = [job(str(i), 0, 10, milli=500) for i in range(4)]
    assert pile_jobs(jobs, nodes(2), parse_policy("whole")).left == 2
    share = pile_jobs(jobs, nodes(2), parse_policy("share"))
    assert (share.placed, share.devices, share.stranded) == (4, 2, 0.0)
    # half of a device is 4 of 7 compute slices, so two of them do not fit on one
    slices = pile_jobs(jobs, nodes(2), parse_policy("mig"))
    assert (slices.placed, slices.left) == (2, 2)
    small = [job(str(i), 0, 10, milli=140) for i in range(7)]
    assert pile_jobs(small, nodes(1), parse_policy("mig")).left == 0


def test_jobs_of_several_nodes_get_all_of_them_at_once_or_hold_parts():
    jobs = [job("a", 0, 10, gpus=2), job("wide", 1, 10, gpus=4, nodes=2), job("c", 2, 5, gpus=2)]
    cluster = nodes(2, 2)
    assert waits(jobs, cluster, "backfill") == pytest.approx(9)  # c uses the free node meanwhile
    held = replay_jobs(jobs, cluster, parse_policy("backfill+no-gang"))
    assert held.mean_wait_s * 3 == pytest.approx(9 + 18)  # wide keeps it


def test_types_and_cpus_are_respected():
    cluster = Cluster([NodeRow(node="a", gpus=2, gpu_type="T4", cpus=8)], "whole")
    other = cluster.demand_of(job("x", 0, 1, gpu_type="A100|P100"))
    assert not cluster.can_ever_hold(other)
    one = cluster.demand_of(job("y", 0, 1, gpu_type="A100|T4", cpus=6))
    assert cluster.place(one, "first-fit") is not None
    assert cluster.place(one, "first-fit") is None  # the CPUs are used up
    assert cluster.used_devices() == 1


def many(seed: int, order: str) -> list[FleetJob]:
    """Jobs whose recorded starts are those of a known policy."""
    drawn = random.Random(seed)
    jobs = [
        job(str(i), 10 * i + drawn.random(), drawn.uniform(20, 60), drawn.choice((1, 2, 4)))
        for i in range(60)
    ]
    by_name = {one.job: one for one in jobs}
    played = replay._Replay(
        simpy.Environment(), jobs, Cluster(nodes(4, 4), "whole"), parse_policy(order)
    )
    played.run(lambda *_: None)
    first = min(one.submit_ms for one in jobs)
    return [
        job(
            one.job.job,
            by_name[one.job.job].submit_ms / 1000,
            one.length,
            one.job.gpus,
            start=first / 1000 + one.started,
        )
        for one in played.jobs
    ]


@pytest.mark.parametrize("order", ["fifo+best-fit", "backfill+best-fit"])
def test_recorded_waits_are_reproduced_before_others_are_predicted(order):
    rows = LedgerRows(jobs=many(1, order), nodes=nodes(4, 4))
    report = replay_ledger(rows, ["csv"], [parse_policy("backfill+best-fit")])
    assert report.reproduction.error == pytest.approx(0, abs=0.01)
    assert report.reproduction.why is None
    assert report.results[0].queue is not None


def test_waits_that_cannot_be_reproduced_are_not_predicted():
    late = [job(str(i), i, 10, start=1000 + 20 * i) for i in range(10)]
    rows = LedgerRows(jobs=late, nodes=nodes(4))
    report = replay_ledger(rows, ["csv"], [parse_policy("fifo")])
    assert "misses the mean wait" in report.reproduction.why
    assert report.results[0].queue is None
    assert report.results[0].pile.placed == 4
    nobody = LedgerRows(jobs=[job("a", 0, 10)], nodes=nodes(4))
    assert "nobody waited" in replay_ledger(nobody, [], []).reproduction.why


def test_slow_down_is_an_interval_from_measured_activity_or_unknown():
    jobs = [job(str(i), 0, 10, milli=500) for i in range(4)]
    rows = LedgerRows(jobs=jobs, nodes=nodes(4))
    share = [parse_policy("share")]
    assert replay_ledger(rows, [], share).results[0].slowdown is None
    told = replay_ledger(rows, [], share, activity={str(i): 0.7 for i in range(4)})
    assert told.results[0].slowdown == pytest.approx((1.0, 1.4))


def test_what_cannot_be_replayed_is_refused_or_counted():
    with pytest.raises(InputError, match="nodes are not known"):
        replay_ledger(LedgerRows(jobs=[job("a", 0, 1)]), [], [])
    with pytest.raises(InputError, match="can be placed"):
        replay_ledger(LedgerRows(jobs=[job("a", 0, 1, gpus=0)], nodes=nodes(1)), [], [])
    mixed = [job("a", 0, 1), job("b", 0, 1, gpus=9, nodes=1), job("c", 0, 1, gpu_type="X")]
    typed = [NodeRow(node="n", gpus=2, gpu_type="T4")]
    report = replay_ledger(LedgerRows(jobs=mixed, nodes=typed), [], [])
    assert report.jobs == 1
    assert report.counts["jobs that no node can hold"] == 2
    for words in ("fastest", "fifo+backfill", ""):
        with pytest.raises(UsageError, match="no policy"):
            parse_policy(words)
