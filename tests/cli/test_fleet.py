"""`whyidle fleet`: a report of files, as a person would ask for it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from whyidle.__main__ import main
from whyidle.model import schema

JOBS = """job_id,user,vc,gpu_num,node,state,start_time,end_time
1,alice,a,2,n1,COMPLETED,2026-11-20T00:00:00Z,2026-11-20T02:00:00Z
2,bob,b,2,n2,COMPLETED,2026-11-20T00:00:00Z,2026-11-20T02:00:00Z
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "jobs.csv").write_text(JOBS)
    rows = ["timestamp,hostname,index,utilization.gpu [%],memory.used [MiB]"]
    for minute in range(1, 121):
        time = f"2026-11-20T{minute // 60:02}:{minute % 60:02}:00Z"
        rows += [f"{time},n1.cluster,{gpu},50 %,9000 MiB" for gpu in (0, 1)]
        rows += [f"{time},n2.cluster,{gpu},0 %,9000 MiB" for gpu in (0, 1)]
    (tmp_path / "readings.csv").write_text("\n".join(rows))
    return [
        *("--ledger", f"csv:{tmp_path / 'jobs.csv'}", "--cache", str(tmp_path / "cache")),
        *("--meter", f"csv:{tmp_path / 'readings.csv'}", "--since", "all"),
    ]


def test_the_report_on_a_terminal(files: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["fleet", "report", *files, "--price", "2", "--currency", "EUR"]) == 0
    text = capsys.readouterr().out
    assert "8.00 GPU-hours allocated, 75% wasted" in text
    assert "16 EUR, of it 12 wasted" in text
    assert "bob: release GPUs that are not used" in text
    assert max(map(len, text.splitlines())) <= 80


def test_readings_below_a_hundredth_are_not_called_none(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "readings.csv"
    path.write_text(path.read_text().replace(",0 %,", ",0.4 %,"))
    assert main(["fleet", "report", *files]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "hardly used, or share one; 1 job stayed below 1 % busy (2.00 GPU-h, medium" in text
    assert "no kernel on" not in text
    assert "0 % busy in every sample" not in text


def test_seconds_of_gpu_time_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """No share of nearly nothing, on either page."""
    (tmp_path / "jobs.csv").write_text(JOBS.replace("T02:00:00", "T00:00:03"))
    words = ["--ledger", f"csv:{tmp_path / 'jobs.csv'}", "--cache", str(tmp_path / "cache")]
    assert main(["fleet", "report", *words, "--since", "all"]) == 0
    text = capsys.readouterr().out
    assert "12 s of GPU time allocated: too little to judge" in text
    assert "%" not in text
    assert main(["fleet", "job", "1", *words, "--since", "all"]) == 0
    assert "%" not in capsys.readouterr().out


def test_a_file_for_each_metric_is_joined_by_gpu_and_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """As Prometheus exports them. Without its memory an idle GPU could not be judged."""
    folder = tmp_path / "readings"
    folder.mkdir()
    for name in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE"):
        value = 100 if "UTIL" in name else 9000
        rows = ["timestamp,Hostname,gpu,exported_pod,value"]
        rows += [
            f"{1795132800 + 60 * n},n1,{g},p{g},{value * g}" for n in range(120) for g in (0, 1)
        ]
        (folder / f"{name}.csv").write_text("\n".join(rows))
    words = ["--cache", str(tmp_path / "cache"), "--since", "all", "--ledger", "labels"]
    words += ["--meter", f"csv:{folder}", "--by", "job", "--json", "-"]
    assert main(["fleet", "report", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["job_count"] == 2
    hours = found["total"]["gpu_hours"]
    assert (hours["idle-reserved"], hours["useful"], hours["unknown"]) == (2.0, 2.0, 0.0)
    assert found["total"]["energy_kwh"] == pytest.approx(18.0)
    assert found["coverage"]["counts"] == {}


def test_hours_without_telemetry_do_not_read_as_well_used(
    files: list[str], capsys: pytest.CaptureFixture[str]
):
    meter = files.index("--meter")
    assert main(["fleet", "report", *files[:meter], *files[meter + 2 :]]) == 0
    text = capsys.readouterr().out
    assert "8.00 GPU-hours allocated; how they were used is unknown" in text


def test_the_document_keeps_its_schema(files: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["fleet", "report", *files, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema.make_schema("fleet")).validate(document)
    assert document["total"]["gpu_hours"]["idle-held"] == 4.0


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 2, "subcommand is missing"),
        (["report"], 2, "No ledger was given"),
        (["report", "--ledger", "tea-leaves"], 2, "There is no ledger 'tea_leaves'"),
        (["report", "--ledger", "csv:/nowhere/jobs.csv"], 1, "Cannot read /nowhere/jobs.csv"),
        (["report", "--ledger", "csv:x", "--since", "soon"], 2, "must be"),
        (
            ["report", "--ledger", "csv:x", "--since", "2026-11-20", "--until", "2026-11-19"],
            2,
            "window is empty",
        ),
    ],
)
def test_errors_say_what_to_do(
    arguments: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["fleet", *arguments]) == status
    assert text in capsys.readouterr().err


SACCT = """JobID|User|State|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES|AllocCPUS|TotalCPU|\
NodeList|TRESUsageInTot|JobName
7|alice|COMPLETED|1763596800|1763604000|7200|1440|cpu=16,mem=64G,gres/gpu=2|16|01:00:00|n1||a|b c
7.batch||COMPLETED|1763596800|1763604000|7200||cpu=16|16|01:00:00|n1|cpu=01:00:00,mem=10G,vmem=1|batch
7.0||COMPLETED|1763600000|1763604000|4000||cpu=16|16|00:10:00|n1|cpu=00:10:00,mem=4G|python
8|alice|PENDING|Unknown|Unknown|0|1440|gres/gpu=2|16|0|None assigned||waits
"""


@pytest.fixture
def one_job(tmp_path: Path) -> list[str]:
    """A job that used one GPU of two, with 10 of 64 GB, 2 of 24 hours, and half a core."""
    (tmp_path / "sacct.txt").write_text(SACCT)
    rows = ["timestamp,hostname,index,utilization.gpu [%],memory.used [MiB],memory.total [MiB]"]
    for minute in range(1, 121):
        time = f"2025-11-20T{minute // 60:02}:{minute % 60:02}:00Z"
        rows += [f"{time},n1,{gpu},{60 - 60 * gpu} %,9000 MiB,80000 MiB" for gpu in (0, 1)]
    (tmp_path / "readings.csv").write_text("\n".join(rows))
    return [
        *("--ledger", f"slurm:{tmp_path / 'sacct.txt'}", "--cache", str(tmp_path / "cache")),
        *("--meter", f"csv:{tmp_path / 'readings.csv'}", "--since", "all"),
    ]


def test_one_job_on_a_page(one_job: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["fleet", "job", "7", *one_job]) == 0
    lines = capsys.readouterr().out.splitlines()
    text = "\n".join(lines)
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert "job 7 a|b c of alice" in text
    assert "1 at least 1% busy" in text
    assert "0.5 on average" in text
    assert "10.7 GB" in text  # 10 GiB, the larger of its two steps
    assert "1 GPU instead of 2 (1 stayed below 1 % busy)" in text
    assert "13 GB of memory instead of 69" in text
    assert "--time=3:00:00" in text
    assert "whyidle run" in text


def test_one_job_in_a_line_and_as_json(one_job: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["fleet", "job", "7", *one_job, "--line"]) == 0
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert "2 GPUs, 4.00 GPU-h, busy 30%, wasted 2.80 GPU-h, 1 below 1% busy" in line
    assert "next time: 1 GPU instead of 2; 13 GB of memory instead of 69; --time=3:00:00" in line
    assert main(["fleet", "job", "7", *one_job, "--json", "-"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["line"] == line.strip()
    assert page["job"]["host_memory_used_bytes"] == 10 << 30
    assert len(page["next_time"]) == 3


@pytest.mark.parametrize(("job", "said"), [("8", "held no GPU"), ("9", "There is no job '9'")])
def test_a_job_that_cannot_be_shown(job: str, said: str, one_job: list[str], capsys):
    assert main(["fleet", "job", job, *one_job]) == 1
    assert said in capsys.readouterr().err
