"""What a policy does about jobs that waste GPUs, and what makes it do nothing."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from whyidle.cluster.report.job_actions import Actor, plan_actions, read_log, read_policy
from whyidle.errors import InputError, OutputError
from whyidle.model.documents.fleet import (
    Account,
    Capacity,
    FleetCoverage,
    FleetJobRow,
    FleetReport,
    Prices,
)
from whyidle.model.documents.fleet_policy import ActionPolicy, ActionRule, Exemptions, LogEntry
from whyidle.model.fleet_rows import FleetJob

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
CANCEL = ActionRule(action="cancel", idle_s=3600.0, warnings=2, every_s=1800.0)


def moment(minutes_ago: float) -> str:
    return (NOW - timedelta(minutes=minutes_ago)).isoformat(timespec="seconds")


def account(state: str) -> Account:
    return Account(
        allocated_gpu_ms=1000,
        gpu_ms={state: 1000},
        gpu_hours={},
        cost=None,
        wasted_cost=None,
        energy_kwh=None,
        energy_cost=None,
    )


def row(job: str, idle: float | None = 120, **fields) -> FleetJobRow:
    known = dict.fromkeys(FleetJobRow.__struct_fields__)
    return FleetJobRow(
        **{
            **known,
            "job": job,
            "ledger": "slurm",
            "state": "running",
            "user": "ann",
            "nodes": ["n1"],
            "gpus": 2,
            "share": 1.0,
            "coverage": 1.0,
            "idle_since": None if idle is None else moment(idle),
            "last_sample": moment(0.5),
            "account": account("idle-held"),
            **fields,
        }
    )


def report(*rows: FleetJobRow, **coverage) -> FleetReport:
    seen = {
        "ledgers": ["slurm"],
        "meters": ["csv"],
        "telemetry": 1.0,
        "period_s": 30.0,
        "latest_sample": moment(0.5),
        "disagreeing_hours": 0,
        "readings": {},
        "counts": {},
        "notes": [],
        **coverage,
    }
    return FleetReport(
        whyidle="0",
        time=moment(0),
        since=moment(600),
        until=moment(0),
        by="job",
        prices=Prices(),
        total=account("useful"),
        job_count=len(rows),
        groups={},
        causes=[],
        jobs=list(rows),
        advice=[],
        capacity=Capacity(
            nodes=None, gpus=None, asked_devices=0, asked_shares=0, peak_devices=0, peak_shares=0
        ),
        coverage=FleetCoverage(**seen),
        heat_step_h=1,
        heat=[],
    )


def warned(job: str, minutes_ago: float) -> LogEntry:
    return LogEntry(
        time=moment(minutes_ago),
        event="done",
        verb="warn",
        job=job,
        user="ann",
        reason="",
        command=[],
        uid=0,
    )


def plan(told: FleetReport, *rules: ActionRule, log=(), pending=(), **policy):
    chosen = ActionPolicy(rule=list(rules), **policy)
    return plan_actions(told, chosen, pending=pending, log=log, now=NOW)


def verbs(planned):
    return [(action.verb, action.job) for action in planned.actions]


def test_an_idle_job_is_warned_and_cancelled_after_its_warnings():
    told = report(row("1"))
    assert verbs(plan(told, CANCEL)) == [("warn", "1")]
    assert "after 2 more warnings" in plan(told, CANCEL).actions[0].reason
    recent = plan(told, CANCEL, log=[warned("1", 10)])
    assert (recent.actions, recent.waiting) == ([], ["1"])
    assert verbs(plan(told, CANCEL, log=[warned("1", 40)])) == [("warn", "1")]
    last = plan(told, CANCEL, log=[warned("1", 80), warned("1", 40)])
    assert verbs(last) == [("cancel", "1")]
    assert last.actions[0].command == ["scancel", "1"]
    others = [warned("2", 80), warned("2", 40)]
    assert verbs(plan(told, CANCEL, log=others)) == [("warn", "1")]


def test_a_warning_is_forgotten_when_the_job_works_again_and_after_a_time():
    told = report(row("7", idle=120))
    old = [warned("7", 200), warned("7", 150)]  # before it worked two hours ago
    assert verbs(plan(told, CANCEL, log=old)) == [("warn", "7")]
    told = report(row("7", idle=60 * 24 * 6))
    five_days = [warned("7", 60 * 24 * 5), warned("7", 60 * 24 * 5 - 40)]
    assert verbs(plan(told, CANCEL, log=five_days)) == [("warn", "7")]
    recent = [warned("7", 100), warned("7", 50)]
    assert verbs(plan(told, CANCEL, log=recent)) == [("cancel", "7")]


SQUEUE = """#!/bin/sh
case "$*" in
*%u*) echo "RUNNING|ann" ;;
*) test -e {place}/stubborn && echo RUNNING ;;
esac
exit 0
"""


def test_nobody_is_told_of_an_end_before_it_is_one(tmp_path, monkeypatch):
    for name, text in {
        "squeue": SQUEUE.format(place=tmp_path),
        "scancel": f"#!/bin/sh\necho cancelled $1 >> {tmp_path}/told\n",
        "tell": f"#!/bin/sh\necho told >> {tmp_path}/told\n",
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("whyidle.cluster.report.job_actions.ENDING_S", 1.0)
    policy = ActionPolicy(enforce=True, notify=[str(tmp_path / "tell")])
    planned = plan(report(row("17")), CANCEL, log=[warned("17", 100), warned("17", 50)])
    errors: list[str] = []
    assert Actor(policy, tmp_path / "log", errors.append).act(planned) == 0
    assert (tmp_path / "told").read_text() == "cancelled 17\ntold\n"
    (tmp_path / "stubborn").touch()
    assert Actor(policy, tmp_path / "log", errors.append).act(planned) == 1
    assert "still runs" in errors[0]
    assert (tmp_path / "told").read_text().count("told\n") == 1
    assert [entry.event for entry in read_log(tmp_path / "log")][-1] == "failed"


def test_only_running_jobs_that_are_idle_for_long_enough_are_meant():
    jobs = [
        row("busy", idle=None),
        row("short", idle=30),
        msgspec.structs.replace(row("ended"), state="completed"),
        row("old", last_sample=moment(30)),
        row("seldom", coverage=0.5),
        row("reserved", account=account("idle-reserved")),
        row("meant"),
    ]
    assert verbs(plan(report(*jobs), CANCEL)) == [("warn", "meant")]
    reserved = msgspec.structs.replace(CANCEL, state="idle-reserved")
    assert verbs(plan(report(*jobs), reserved)) == [("warn", "reserved")]


def test_exempt_jobs_are_named_and_spared():
    told = report(row("1"), row("2", user="bob"), row("3", partition="debug"))
    planned = plan(told, CANCEL, exempt=Exemptions(users=["bob"], partitions=["debug"]))
    assert verbs(planned) == [("warn", "1")]
    assert planned.exempt == ["2", "3"]


@pytest.mark.parametrize(
    ("coverage", "why"),
    [
        ({"latest_sample": None}, "no telemetry"),
        ({"latest_sample": moment(20)}, "newest sample"),
        ({"telemetry": 0.8}, "80% of the allocated time"),
        ({"disagreeing_hours": 3}, "disagree in 3"),
    ],
)
def test_doubtful_readings_are_a_reason_to_do_nothing(coverage, why):
    assert why in plan(report(row("1"), **coverage), CANCEL).refused[0]


def test_more_jobs_than_allowed_are_a_reason_to_do_nothing():
    told = report(*(row(str(i)) for i in range(4)))
    assert "4 jobs would be hit" in plan(told, CANCEL, most=3).refused[0]
    assert plan(told, CANCEL, most=4).refused == []


def test_a_pending_job_is_offered_what_its_earlier_runs_used():
    earlier = row("1", idle=None, name="big.sh", unused_gpus=1)
    asked = FleetJob(
        job="9", ledger="slurm", state="pending", name="big.sh", user="ann", gpus=2, nodes=1
    )
    planned = plan(report(earlier), resize=True, pending=[asked])
    assert planned.actions[0].command == [
        "scontrol", "update", "JobId=9", "TresPerNode=gres:gpu:1",
    ]  # fmt: skip
    other = msgspec.structs.replace(asked, user="bob")
    assert plan(report(earlier), resize=True, pending=[other]).actions == []


def test_what_cannot_be_done_is_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no squeue
    policy, log, told = ActionPolicy(enforce=True, rule=[CANCEL]), tmp_path / "log", []
    done = [warned("1", 80), warned("1", 40)]
    failed = Actor(policy, log, told.append).act(plan(report(row("1")), CANCEL, log=done))
    assert failed == 0
    assert "its state is not known" in told[0]
    assert [(entry.event, entry.verb) for entry in read_log(log)] == [
        ("planned", "cancel"),
        ("skipped", "cancel"),
    ]


def test_an_owner_is_told_by_the_policy_s_program(tmp_path):
    place = tmp_path / "told"
    policy = ActionPolicy(enforce=True, notify=["tee", "-a", str(place)], rule=[CANCEL])
    log = tmp_path / "logs" / "log"
    Actor(policy, log, print).act(plan(report(row("1")), CANCEL))
    assert msgspec.json.decode(place.read_bytes())["job"] == "1"
    assert [entry.event for entry in read_log(log)] == ["planned", "done"]
    broken = msgspec.structs.replace(policy, notify=["false"])
    assert Actor(broken, log, lambda _: None).act(plan(report(row("1")), CANCEL)) == 1
    assert read_log(log)[-1].event == "failed"


def test_nothing_is_done_that_is_not_in_the_log(tmp_path):
    place = tmp_path / "told"
    policy = ActionPolicy(enforce=True, notify=["tee", str(place)], rule=[CANCEL])
    with pytest.raises(OutputError, match="audit log"):
        Actor(policy, tmp_path, print).act(plan(report(row("1")), CANCEL))
    assert not place.exists()
    (tmp_path / "log").write_text("{")
    with pytest.raises(InputError, match="audit log"):
        read_log(tmp_path / "log")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "contains no rule"),
        ("enforce = 3", "is not a policy"),
        ("[[rule]]\nstate = 'busy'", "is not a policy"),
        ("[[rule]]\nidel_s = 3", "is not a policy"),
        ("most = 0\n[[rule]]", "must be positive"),
        ("[[rule]]\naction = 'cancel'", "no way to warn users"),
        ("[[", "is not a policy"),
    ],
)
def test_a_wrong_policy_is_refused(tmp_path: Path, text, why):
    place = tmp_path / "policy.toml"
    place.write_text(text)
    with pytest.raises(InputError) as error:
        read_policy(place)
    assert why in f"{error.value.what} {error.value.why}"
