"""Ledgers: the columns of public traces, Slurm's text, stores; and broken input."""

# ruff: noqa: E501  # tables as they are
from __future__ import annotations

import random
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet_contracts import check_ledger
from imagined_jobs import SICK
from whyidle.cluster.ledgers import csv, slurm, store
from whyidle.cluster.ledgers._fields import (
    mig_milli,
    mig_profile,
    parse_clock,
    parse_size,
    parse_state,
    parse_time,
)
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.errors import InputError
from whyidle.model.fleet_rows import DAY_MS, ENDED_BY_CLUSTER, HOUR_MS, LedgerRows, Window
from whyidle.model.node_lists import expand_nodes
from whyidle.store.run_store import Store

ALL = Window(0, 4_000_000_000_000)
TABLES = {
    "helios": (
        "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc\n"
        "7,u1,8,32,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,60,vcA\n"
    ),
    "acme": (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration\n"
        "d1,u2,1,8,64,Pretrain,FAILED,2023-03-01 00:00:00+08:00,2023-03-01 00:01:00+08:00,"
        "2023-03-01 01:01:00+08:00,3600.0\n"
    ),
    "philly": (
        "jobid,status,vc,user,submitted_time,start_time,end_time,num_gpus,machine_id\n"
        "application_1,Killed,6214e9,ce2f,2017-10-03 01:00:00,2017-10-03 02:00:00,"
        "2017-10-03 03:00:00,8,m12\n"
    ),
    "openb": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time\n"
        "pod-1,6000,12288,1,460,,LS,Succeeded,0,4600,1000\n"
    ),
}
SACCT = """\
JobID|JobIDRaw|JobName|User|Account|Partition|State|Submit|Start|End|TimelimitRaw|AllocTRES|ReqTRES|AllocCPUS|TotalCPU|NodeList
100_1|101|a|alice|lab|gpu|COMPLETED|2026-11-26T01:00:00|2026-11-26T02:00:00|2026-11-26T03:00:00|90|cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G|x|8|01:30:00|gpu[01-02]
100_1.batch|101.batch|batch|||||2026-11-26T01:00:00|2026-11-26T02:00:00|2026-11-26T03:00:00||cpu=8|||8|
200|200|m|bob|lab|mig|FAILED|2026-11-26T01:00:00|2026-11-26T02:00:00|2026-11-26T03:00:00|UNLIMITED|cpu=1,gres/gpu:1g.10gb=1||1||gpu03
200|200|m|bob|lab|mig|FAILED|2026-11-26T01:00:00|2026-11-26T02:00:00|2026-11-26T03:00:00|UNLIMITED|cpu=1,gres/gpu:1g.10gb=1||1||gpu03
200|200|m|bob|lab|mig|COMPLETED|2026-11-26T01:00:00|2026-11-26T04:00:00|2026-11-26T05:00:00|60|cpu=1,gres/gpu:1g.10gb=1||1||gpu03
300|300|r|eve|lab|gpu|RUNNING|2026-11-26T01:00:00|2026-11-26T02:00:00|Unknown|60|gres/gpu=1||1||gpu04
400|400|p|eve|lab|gpu|PENDING|2026-11-26T01:00:00|Unknown|Unknown|60||gres/gpu=2|1||None assigned
500|500|b|eve|lab|gpu|COMPLETED|2026-11-26T01:00:00|2026-11-26T09:00:00|2026-11-26T02:00:00|60|gres/gpu=1||1||gpu04
600|too|few
"""  # as sacct prints it


@pytest.mark.parametrize("name", TABLES)
def test_lists_with_the_columns_of_public_traces(name: str, tmp_path: Path):
    path = tmp_path / f"{name}.csv"
    path.write_text(TABLES[name])
    rows = check_ledger(csv, str(path), ALL)
    (job,), (holding,) = rows.jobs, rows.holdings
    assert holding.end_ms - holding.start_ms == 3_600_000
    assert (job.gpus, job.milli) == ((1, 460) if name == "openb" else (8, 1000))
    states = {"helios": "completed", "acme": "failed", "philly": "cancelled", "openb": "completed"}
    assert job.state == states[name]
    assert holding.shared == (name == "openb")


def test_slurm_s_accounting(tmp_path: Path):
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    rows = check_ledger(slurm, str(path), ALL)
    jobs = {job.job: job for job in rows.jobs}
    assert set(jobs) == {"100_1", "200~1", "200", "300", "400"}
    assert (jobs["100_1"].gpus, jobs["100_1"].gpu_type, jobs["100_1"].limit_s) == (4, "a100", 5400)
    assert jobs["100_1"].cpu_s == 5400
    assert (jobs["200~1"].profile, jobs["200~1"].milli, jobs["200"].state) == (
        "1g.10gb", 143, "completed",
    )  # fmt: skip
    held = [(h.job, h.label, h.node, h.gpus) for h in rows.holdings]
    assert held[:2] == [("100_1", "101", "gpu01", 2), ("100_1", "101", "gpu02", 2)]
    assert {row[0] for row in held} == {"100_1", "200~1", "200", "300"}
    assert dict(rows.counts) == {
        "duplicate rows": 1, "jobs that end before they start": 1, "incomplete rows": 1,
    }  # fmt: skip


HEAD = "JobID|JobName|User|State|Start|End|ElapsedRaw|AllocTRES|NodeList"


def hours_of(*lines: str) -> tuple[float, LedgerRows]:
    """GPU-hours that these rows of sacct hold."""
    rows = LedgerRows()
    slurm.parse_accounting("\n".join([HEAD, *lines]), rows, {})
    return sum((h.end_ms - h.start_ms) * h.gpus for h in rows.holdings) / HOUR_MS, rows


def test_every_attempt_that_ran_holds_its_gpus():
    hours, rows = hours_of(
        "7|a|u|REQUEUED|2026-11-01T00:00:00|2026-11-01T10:00:00||gres/gpu=8|n1",
        "7|a|u|NODE_FAIL|2026-11-01T11:00:00|2026-11-01T12:00:00||gres/gpu=8|n1",
        "7|a|u|COMPLETED|2026-11-01T13:00:00|2026-11-01T14:00:00||gres/gpu=8|n2",
        "8|a|u|RESIZING|2026-11-01T00:00:00|2026-11-01T01:00:00||gres/gpu=2|n3",
        "8|a|u|COMPLETED|2026-11-01T01:00:00|2026-11-01T02:00:00||gres/gpu=1|n3",
        "9|a|u|REQUEUED|2026-11-01T00:00:00|2026-11-01T01:00:00||gres/gpu=1|n3",
        "9|a|u|PENDING|Unknown|Unknown|||",
    )
    assert hours == 80 + 8 + 8 + 2 + 1 + 1
    states = {job.job: job.state for job in rows.jobs}
    assert states["9"] == "pending"  # by the id that Slurm knows
    assert (states["7~1"], states["7"], states["9~1"]) == ("cluster", "completed", "cluster")


def test_a_running_job_of_an_old_file_held_its_gpus_until_the_file_was_saved():
    hours, _ = hours_of("7|a|u|RUNNING|2026-11-01T00:00:00|Unknown|7200|gres/gpu=8|n1")
    assert hours == 16


def test_sacct_as_json_is_refused_with_the_command_to_use(tmp_path: Path):
    path = tmp_path / "sacct.json"
    path.write_text('{\n  "meta": {}\n}')
    with pytest.raises(InputError, match="sacct -P") as raised:
        slurm.read(str(path), ALL)
    assert "JSON" in str(raised.value.why)


def test_a_thousand_random_jobs_add_up_to_the_second(monkeypatch):
    """Requeues, arrays, node failures, odd names, and local times in the night in which daylight
    saving ends; counted independently in seconds since the epoch."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        random_ = random.Random(57)
        night = 1_792_886_400  # 2026-10-25T00:00:00Z: the clock shows 02:00 to 03:00 twice
        lines, seconds, cluster = [], 0, 0
        for number in range(1000):
            name = random_.choice(["train", "a|b", "ü ß", "x||", "7|root|RUNNING", "'; drop"])
            own = f"{number}_{number % 7}" if number % 3 == 0 else f"{number}"
            start = night + random_.randrange(-6 * 3600, 6 * 3600)
            for state in [
                *random_.choices(["REQUEUED", "NODE_FAIL", "PREEMPTED"], k=number % 3),
                "x",
            ]:
                ended = random_.choice(["COMPLETED", "FAILED", "CANCELLED by 0"])
                length, gpus = random_.randrange(1, 9 * 3600), random_.choice([1, 2, 8])
                shown = [
                    datetime.fromtimestamp(moment).isoformat(timespec="seconds")
                    for moment in (start, start + length)
                ]
                word = ended if state == "x" else state
                lines.append(
                    f"{own}|{name}|u{number % 9}|{word}|{'|'.join(shown)}|{length}|gres/gpu={gpus}|n1"
                )
                seconds += length * gpus
                cluster += length * gpus if state != "x" else 0
                start += length + random_.randrange(1, 600)
        random_.shuffle(lines)
        hours, rows = hours_of(*lines)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert round(hours * 3600) == seconds
    states = {job.job: job.state for job in rows.jobs}
    lost = sum(
        (h.end_ms - h.start_ms) * h.gpus for h in rows.holdings if states[h.job] in ENDED_BY_CLUSTER
    )
    assert lost == cluster * 1000
    assert len(rows.jobs) == len(lines)
    assert not rows.counts


def test_the_text_of_a_user_breaks_no_row():
    times = "2026-11-01T00:00:00|2026-11-01T01:00:00"
    hours, rows = hours_of(f"7|a|b|c|u|COMPLETED|{times}||gres/gpu=1|n1")
    assert (hours, rows.jobs[0].name, rows.jobs[0].user) == (1, "a|b|c", "u")
    mark = "|5f|"
    head = ["JobID", "User", "State", "Start", "End", "AllocTRES", "JobName"]
    record = ["7", "u", "COMPLETED", *times.split("|"), "gres/gpu=1", "a|b\n9|root|RUNNING"]
    text = "\n".join([mark.join(head), mark.join(record), mark.join(record).replace("7", "8", 1)])
    rows = LedgerRows()
    slurm.parse_accounting(text, rows, {}, mark)
    assert [(job.job, job.user) for job in rows.jobs] == [("7", "u"), ("8", "u")]
    assert not rows.counts


def test_slurm_s_spellings():
    times = "2026-11-01T00:00:00|2026-11-01T07:00:00"
    _, rows = hours_of(
        f"1|a|u|COMPLETED|{times}||gres/gpu=1,gres/gpu:a100_1g.5gb=1|r[1-2]n[1-2]",
        f"2|a|u|COMPLETED|{times}||gres/shard=4|n1",
    )
    slice_job = rows.jobs[0]
    assert (slice_job.profile, slice_job.milli, slice_job.nodes) == ("1g.5gb", 143, 4)
    assert rows.counts["jobs with gres/shard, whose share of a GPU is not counted"] == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu[08-10,12],login1", ["gpu08", "gpu09", "gpu10", "gpu12", "login1"]),
        ("a[1]b,c", ["a1b", "c"]),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]):
    assert expand_nodes(text) == names


def test_scontrol_says_which_gpus_a_running_job_holds():
    shown = """JobId=300 JobName=r
   JobState=RUNNING
     Nodes=gpu[04-05] CPU_IDs=0-1 Mem=1000 GRES=gpu:a100:2(IDX:0,3)
"""
    places = slurm.parse_places(shown)
    assert places == {"300": {"gpu04": ["0", "3"], "gpu05": ["0", "3"]}}
    rows = LedgerRows()
    line = SACCT.splitlines()[0] + "\n" + SACCT.splitlines()[6].replace("gres/gpu=1", "gres/gpu=4")
    slurm.parse_accounting(line.replace("gpu04", "gpu[04-05]"), rows, places)
    assert [(h.node, h.gpu) for h in rows.holdings] == [
        ("gpu04", "0"), ("gpu04", "3"), ("gpu05", "0"), ("gpu05", "3"),
    ]  # fmt: skip
    line = "NodeName=vm CPUTot=8 Gres=gpu:a100:4 CfgTRES=cpu=8,mem=16000M,gres/gpu=4"
    (node,) = slurm.parse_nodes(line)
    assert (node.gpus, node.gpu_type, node.cpus) == (4, "a100", 8.0)


def test_runs_of_a_store_bring_causes(tmp_path: Path):
    shelf = Store(tmp_path)
    name = next(name for name in SICK if diagnose_job([SICK[name]().timeline()]).findings)
    shelf.add_run(diagnose_job([SICK[name]().timeline()]))
    (tmp_path / "runs" / "20260101-000000-000000").mkdir()
    rows = check_ledger(store, str(tmp_path), ALL)
    assert rows.counts["runs that cannot be read"] == 1
    assert rows.causes == []  # when an explained trace ran is not known
    with pytest.raises(InputError, match="There is no store"):
        store.read(str(tmp_path / "none"), ALL)


def test_times_states_sizes_and_slices():
    assert parse_time("2026-11-20T00:00:00Z") == parse_time("1795132800") == 1_795_132_800_000
    assert parse_time("1795132800000") == 1_795_132_800_000
    durations = [parse_clock(text) for text in ("1-02:03:04", "03:04.5", "x")]
    assert durations == [93784, 184.5, None]
    assert parse_time("Unknown") is None
    assert parse_state("CANCELLED by 1001") == "cancelled"
    assert parse_state("OUT_OF_MEMORY") == "failed"
    assert parse_state("gone fishing") == "unknown"
    assert (parse_size("8Gi"), parse_size("1000M"), parse_size("lots")) == (
        8 << 30,
        1000 << 20,
        None,
    )
    assert mig_profile("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb") == "1g.5gb"
    assert (mig_milli("3g.40gb"), mig_milli("1g.10gb+me"), mig_milli("a100")) == (429, 143, 1000)


ODD = (
    "1 -1 1e400 nan 0.5 7g.80gb 2026-11-20T00:00:00 99999999999999 gpu[01- gpu[a-b] Unknown "
    "COMPLETED gres/gpu=2 gres/gpu=99999999999999 gpu[1-999999999]"
)
CELL = st.one_of(st.text(max_size=12), st.sampled_from(["", *ODD.split()]))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(CELL, min_size=0, max_size=17), max_size=5), st.booleans())
def test_odd_rows_are_counted_and_never_a_crash(rows: list[list[str]], by_slurm: bool):
    head, mark = (SACCT.splitlines()[0], "|") if by_slurm else (TABLES["philly"].split()[0], ",")
    text = "\n".join([head, *(mark.join(row) for row in rows)])
    found = LedgerRows()
    if by_slurm:
        slurm.parse_accounting(text, found, {})
    else:
        csv.parse_table(text, found, "jobs.csv")
    assert len(found.jobs) + sum(found.counts.values()) <= max(len(text.splitlines()), 1) * 2
    assert all(h.end_ms - h.start_ms < 20_000 * DAY_MS * 365 for h in found.holdings)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(content: bytes):
    text = content.decode("utf-8", errors="replace").replace("\0", "")
    for read in (
        lambda: slurm.parse_accounting(text, LedgerRows(), {}),
        lambda: csv.parse_table(text, LedgerRows(), "x"),
        lambda: slurm.parse_places(text),
        lambda: slurm.parse_nodes(text),
    ):
        with suppress(InputError):
            read()
