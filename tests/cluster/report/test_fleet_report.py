"""What became of allocated GPU-hours: fleets whose truth was planted."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from fleets import GIB, NOW_MS, READING_HEAD, job, moment, read, readings, report

from whyidle.cluster.report.gpu_hours import sum_holdings
from whyidle.cluster.report.reading import read_fleet
from whyidle.cluster.report.report import make_report
from whyidle.cluster.report.tables import COLUMNS, load_table
from whyidle.errors import InputError
from whyidle.model.documents.fleet import FLEET_STATES, Account, FleetReport, Prices
from whyidle.model.fleet_rows import JobCause, Window


def hours(account: Account) -> dict[str, float]:
    return {state: round(account.gpu_hours[state], 3) for state in FLEET_STATES}


def of_job(found: FleetReport, name: str) -> Account:
    return next(row.account for row in found.jobs if row.job == name)


def check_sums(found: FleetReport) -> None:
    """Every sum is exact: of states, of groups, of causes."""
    total = found.total
    assert sum(total.gpu_ms.values()) == total.allocated_gpu_ms
    for rows in found.groups.values():
        assert sum(row.account.allocated_gpu_ms for row in rows) == total.allocated_gpu_ms
        for row in rows:
            assert sum(row.account.gpu_ms.values()) == row.account.allocated_gpu_ms
    assert sum(row.gpu_ms for row in found.causes) == total.gpu_ms["starved"]


def test_each_state_is_found(tmp_path: Path):
    jobs = [
        job("busy", "alice", "n1", "0", (0, 4)),
        job("held", "bob", "n1", "1", (0, 4)),
        job("empty", "bob", "n2", "0", (0, 4)),
        job("failed", "eve", "n2", "1", (0, 4), state="FAILED"),
        job("node", "eve", "n4", "0", (0, 4), state="NODE_FAIL"),
        job("taken", "eve", "n4", "1", (0, 2), state="PREEMPTED"),
        job("dark", "eve", "n3", "0 1", (0, 4)),
    ]
    lines = [
        *readings("n1", "0", (0, 4), 0.75),
        *readings("n1", "1", (0, 4), 0.0),
        *readings("n2", "0", (0, 4), 0.0, memory=100 << 20),
        *readings("n2", "1", (0, 4), 0.5),
    ]
    found = report(tmp_path, jobs, lines)
    check_sums(found)
    assert hours(found.total) == {
        "useful": 3.0, "starved": 1.0, "idle-held": 4.0, "idle-reserved": 4.0, "failed": 4.0,
        "cluster": 6.0, "unknown": 8.0,
    }  # fmt: skip
    assert found.coverage.telemetry == pytest.approx(16 / 30)
    assert found.total.gpu_hours["wasted"] == 13.0
    assert [note for note in found.coverage.notes if "checkpoint" in note]
    assert of_job(found, "dark").gpu_ms["unknown"] == of_job(found, "dark").allocated_gpu_ms


def test_a_gap_in_the_telemetry_is_unknown_and_not_idle(tmp_path: Path):
    lines = [*readings("n1", "0", (0, 1), 0.5), *readings("n1", "0", (3, 4), 0.5)]
    found = report(tmp_path, [job("1", "alice", "n1", "0", (0, 4))], lines)
    check_sums(found)
    assert hours(found.total)["unknown"] == 2.0
    assert hours(found.total)["idle-held"] == 0.0


def test_ends_of_a_job_between_two_samples_are_covered(tmp_path: Path):
    jobs = [job("1", "alice", "n1", "0", (0.01, 2.99))]
    found = report(tmp_path, jobs, readings("n1", "0", (0, 4), 1.0))
    assert hours(found.total)["useful"] == pytest.approx(2.98, abs=0.001)
    assert found.total.gpu_ms["unknown"] == 0


def test_a_busy_share_is_needed_and_memory_where_there_is_none(tmp_path: Path):
    lines = readings("n1", "0", (0, 2), 0.0)
    blind = [line.replace(f",{10 * GIB},", ",,") for line in lines]
    found = report(tmp_path, [job("1", "alice", "n1", "0", (0, 2))], blind)
    assert hours(found.total)["unknown"] == 2.0
    assert found.coverage.counts["idle readings without memory, which are unknown"] == 120


def test_duplicates_are_merged_and_contradictions_unknown(tmp_path: Path):
    lines = readings("n1", "0", (0, 2), 0.5)
    contradicted = [line.replace(",0.5,", ",0.9,") for line in lines[:60]]
    found = report(
        tmp_path, [job("1", "alice", "n1", "0", (0, 2))], [*lines, *lines[60:], *contradicted]
    )
    check_sums(found)
    assert hours(found.total) | {"useful": 0.5, "starved": 0.5, "unknown": 1.0} == hours(
        found.total
    )
    assert found.coverage.counts["contradictory readings"] == 60
    assert found.coverage.counts["duplicate readings"] == 120


def test_impossible_and_late_readings_are_counted(tmp_path: Path):
    lines = readings("n1", "0", (0, 2), 0.5)
    odd = [line.replace(",0.5,", ",7,") for line in lines[:10]]
    shuffled = [*odd, *lines[10:], "soon,n1,0,0.5,1,1", *readings("n1", "0", (100, 101), 0.5)]
    random.Random(1).shuffle(shuffled)
    found = report(tmp_path, [job("1", "alice", "n1", "0", (0, 2))], shuffled)
    counts = found.coverage.counts
    assert counts["readings with a busy share beyond 0 to 1"] == 10
    assert counts["readings without a time"] == 1
    assert counts["readings outside the window"] == 60
    assert hours(found.total)["unknown"] == pytest.approx(10 / 60, abs=0.001)


def test_a_job_with_every_gpu_of_its_nodes_needs_no_numbers(tmp_path: Path):
    row = f'1,alice,gpu,4,"n1,n2",,COMPLETED,{moment(0)},{moment(2)}'
    lines = [
        line for node in ("n1", "n2") for gpu in "01" for line in readings(node, gpu, (0, 2), 0.5)
    ]
    found = report(tmp_path, [row], lines)
    assert hours(found.total) == {**dict.fromkeys(FLEET_STATES, 0.0), "useful": 4, "starved": 4}


def test_some_gpus_of_a_node_without_numbers_are_unknown(tmp_path: Path):
    row = f"1,alice,gpu,1,n1,,COMPLETED,{moment(0)},{moment(2)}"
    lines = [line for gpu in "01" for line in readings("n1", gpu, (0, 2), 0.5)]
    assert hours(report(tmp_path, [row], lines).total)["unknown"] == 2.0


def test_labels_of_the_readings_name_the_job(tmp_path: Path):
    (tmp_path / "labelled.csv").write_text(
        "time,job,user,busy,memory_bytes\n"
        + "\n".join(f"{moment(n / 60)},a,team,{n % 2},{GIB}" for n in range(1, 121))
    )
    jobs = [f"a,team,gpu,1,n1,,COMPLETED,{moment(0)},{moment(2)}"]
    fleet = read(tmp_path, jobs, ["x"])
    fleet.connection.close()
    for ledger in (f"csv:{tmp_path / 'jobs.csv'}", "labels"):
        fleet = read_fleet(
            [ledger], [f"csv:{tmp_path / 'labelled.csv'}"], fleet.window,
            work=tmp_path / "cache", progress=lambda done, total: None, now_ms=NOW_MS,
        )  # fmt: skip
        found = make_report(fleet, by="user", prices=Prices(), now_ms=NOW_MS)
        assert hours(found.total) | {"useful": 1.0, "idle-held": 1.0} == hours(found.total)
        assert [row.key for row in found.groups["user"]] == ["team"]


def test_readings_without_labels_are_told_apart_from_an_empty_window(tmp_path: Path):
    (tmp_path / "readings.csv").write_text(f"time,gpu,busy\n{moment(1)},0,0.5\n{moment(2)},0,0.5\n")
    with pytest.raises(InputError, match="No job is known for these readings"):
        read_fleet(
            ["labels"], [f"csv:{tmp_path / 'readings.csv'}"], Window(0, 4_000_000_000_000),
            work=tmp_path / "cache", progress=lambda done, total: None, now_ms=NOW_MS,
        )  # fmt: skip


def test_a_busy_shared_gpu_does_not_say_whose_work_it_was(tmp_path: Path):
    rows = [f"{name},{name},1,500,n1,0,{moment(0)},{moment(2)}" for name in "ab"]
    lines = [*readings("n1", "0", (0, 1), 0.5), *readings("n1", "0", (1, 2), 0.0)]
    found = report(tmp_path, rows, lines, head="job,user,num_gpu,gpu_milli,node,gpu_ids,start,end")
    check_sums(found)
    assert hours(found.total) | {"idle-held": 1.0, "unknown": 1.0} == hours(found.total)
    assert found.capacity.asked_devices == 2
    assert found.capacity.asked_shares == 1.0


def test_an_interrupted_report_goes_on_with_the_days_that_it_has(tmp_path: Path):
    jobs = [job("1", "alice", "n1", "0", (0, 50))]
    lines = readings("n1", "0", (0, 50), 0.5, period_s=300)
    first = report(tmp_path, jobs, lines)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*.parquet")}
    time.sleep(0.02)  # so that times of files differ
    assert len(kept) == 4  # three days, and the readings
    second = report(tmp_path, jobs, lines)
    again = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*.parquet")}
    changed = [path for path in kept if kept[path] != again[path]]
    assert first.total == second.total
    assert len(changed) == 1  # the day that has not ended
    third = report(tmp_path, [job("1", "alice", "n1", "0", (0, 49))], lines)
    assert third.total.allocated_gpu_ms < first.total.allocated_gpu_ms


def test_prices_and_energy(tmp_path: Path):
    prices = Prices(currency="EUR", gpu_hour={"": 2.0}, kilowatt_hour=0.5)
    jobs = [job("1", "alice", "n1", "0", (0, 2))]
    found = report(tmp_path, jobs, readings("n1", "0", (0, 2), 0.0), prices=prices)
    assert found.total.cost == pytest.approx(4.0)
    assert found.total.wasted_cost == pytest.approx(4.0)
    assert found.total.energy_kwh == pytest.approx(0.4)
    assert found.total.energy_cost == pytest.approx(0.2)


def test_sums_are_exact_in_a_random_fleet(tmp_path: Path):
    rng, jobs, lines = random.Random(7), [], []
    for number in range(60):
        node, gpu, start = f"n{number % 6}", str(number // 6), rng.uniform(0, 20)
        end = start + rng.uniform(0, 40)
        state = rng.choice(["COMPLETED", "FAILED", "CANCELLED by 7", "TIMEOUT"])
        user = rng.choice("abc")
        jobs.append(job(str(number), user, node, gpu, (start, end), state=state))
        value = rng.choice([0.0, 0.3, 1.0])
        lines += readings(node, gpu, (start, start + (end - start) * rng.random()), value)
    found = report(tmp_path, jobs, rng.sample(lines, len(lines)))
    check_sums(found)
    assert found.total.gpu_ms["unknown"] > 0


def test_causes_of_watched_jobs_divide_their_starved_time(tmp_path: Path):
    """And their samples without a kernel are starved: they made steps."""
    jobs = [job("1", "alice", "n1", "0", (0, 2)), job("2", "bob", "n1", "1", (0, 2))]
    lines = [*readings("n1", "0", (0, 2), 0.0), *readings("n1", "1", (0, 2), 0.5)]
    fleet = read(tmp_path, jobs, lines)
    cause = JobCause(
        job="1", host=None, run="r", cause="dataloader-no-workers", title="No workers", lost=0.5,
        waiting=0.8, fix="set num_workers to 4",
    )  # fmt: skip
    load_table(fleet.connection, "causes", [cause], COLUMNS["causes"])
    sum_holdings(fleet.connection, fleet.periods_ms)
    found = make_report(fleet, by="cause", prices=Prices(), now_ms=NOW_MS)
    check_sums(found)
    assert hours(of_job(found, "1"))["starved"] == 2.0
    assert [(row.cause, row.gpu_hours) for row in found.causes] == [
        ("dataloader-no-workers", pytest.approx(1.25)), (None, pytest.approx(1.75)),
    ]  # fmt: skip
    assert next(one for one in found.advice if one.kind == "fix-cause").gpu_hours == 0.625


def test_two_meters_that_disagree_are_noticed(tmp_path: Path):
    fleet = read(tmp_path, [job("1", "alice", "n1", "0", (0, 2))], readings("n1", "0", (0, 2), 0.0))
    lines = readings("n1", "0", (0, 1), 0.9, period_s=30)
    (tmp_path / "other.csv").write_text("\n".join([READING_HEAD, *lines]))
    fleet = read_fleet(
        fleet.ledgers, [*fleet.meters, f"csv:{tmp_path / 'other.csv'}"], fleet.window,
        work=tmp_path / "cache", progress=lambda done, total: None, now_ms=NOW_MS,
    )  # fmt: skip
    assert fleet.disagreeing_hours == 1
    found = make_report(fleet, by="user", prices=Prices(), now_ms=NOW_MS)
    check_sums(found)
    # hours count once: two of the first meter, which has as many readings and is named first
    assert found.jobs[0].busy == 0.0
    assert found.jobs[0].unused_gpus == 1
    assert found.coverage.readings["idle-held"] == 120


def test_advice_by_what_jobs_used(tmp_path: Path):
    """One GPU of two used, a slice that suffices, cores that were all used; and a busy job."""
    head = "job,user,gpus,node,gpu_ids,gpu_type,cpus,state,start,end,limit_s"
    rows = [
        f"pair,alice,2,n1,0 1,A100,8,COMPLETED,{moment(0)},{moment(4)},99999",
        f"small,bob,1,n2,0,A100,8,COMPLETED,{moment(0)},{moment(4)},99999",
        f"full,eve,1,n3,0,A100,8,COMPLETED,{moment(0)},{moment(4)},99999",
    ]
    text = "time,node,gpu,busy,sm,memory_bytes,capacity_bytes\n"
    for node, gpu, busy, sm, memory in (
        ("n1", "0", 0.9, 0.9, 70), ("n1", "1", 0.0, 0.0, 1), ("n2", "0", 0.9, 0.1, 6),
        ("n3", "0", 0.95, 0.95, 70),
    ):  # fmt: skip
        text += "".join(
            f"{moment(n / 60)},{node},{gpu},{busy},{sm},{memory << 30},{80 << 30}\n"
            for n in range(1, 241)
        )
    (tmp_path / "sm.csv").write_text(text)
    fleet = read(tmp_path, rows, [], head=head)
    fleet = read_fleet(
        fleet.ledgers, [f"csv:{tmp_path / 'sm.csv'}"], fleet.window,
        work=tmp_path / "cache", progress=lambda done, total: None, now_ms=NOW_MS,
    )  # fmt: skip
    found = make_report(fleet, by="user", prices=Prices(), now_ms=NOW_MS)
    advice = {(one.kind, one.subject): one for one in found.advice}
    assert set(advice) == {("fewer-gpus", "alice"), ("mig-slice", "bob")}
    assert advice["fewer-gpus", "alice"].gpu_hours == pytest.approx(4.0)
    assert advice["mig-slice", "bob"].gpu_hours == pytest.approx(4 * 6 / 7)
    assert "1g.10gb" in advice["mig-slice", "bob"].evidence[0]
