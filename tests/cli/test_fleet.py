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
    assert "bob: release GPUs that run nothing" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_document_keeps_its_schema(files: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["fleet", "report", *files, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema.make_schema("fleet")).validate(document)
    assert document["total"]["gpu_hours"]["idle-held"] == 4.0


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 2, "subcommand is missing"),
        (["report"], 2, "No ledger is named"),
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
