"""`whyidle runs`."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest

from imagined_jobs import healthy
from whyidle.__main__ import main
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.diagnosis import FixedJob
from whyidle.readers import kineto
from whyidle.store.document import read_diagnosis
from whyidle.store.run_store import Store


@pytest.fixture
def two(trace: Path, fixed: Path) -> None:
    for path in (trace, fixed):
        assert main(["explain", str(path), "-q"]) == 0


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["runs", "--json", "-"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


def test_an_empty_store_says_how_to_fill_it(capsys: pytest.CaptureFixture[str]):
    assert main(["runs"]) == 0
    assert "whyidle explain TRACE" in capsys.readouterr().out
    assert not Path(".whyidle").exists()


@pytest.mark.usefixtures("two")
def test_list_delete_pin_export(capsys: pytest.CaptureFixture[str]):
    rows = listed(capsys)
    assert [Path(str(row["path"])).name for row in rows] == [row["id"] for row in rows]
    assert main(["runs", "pin", "last~1"]) == 0
    assert main(["runs", "delete", "last~1"]) == 1
    assert "runs unpin" in capsys.readouterr().err
    assert main(["runs", "delete", "last"]) == 0
    assert [row["pinned"] for row in listed(capsys)] == [True]
    assert main(["runs", "export", "last", "out.json"]) == 0
    assert json.loads(Path("out.json").read_text())["schema"] == "whyidle/diagnosis/1"
    assert main(["runs", "unpin", "last"]) == 0
    assert main(["runs", "delete", "last"]) == 0
    assert listed(capsys) == []


def test_a_fixed_job_is_listed_as_such(capsys: pytest.CaptureFixture[str]):
    """It is compared with what it became, which is stored before it, and not the other way."""
    store = Store(Path(".whyidle"))
    after = diagnose_job([healthy().timeline()])
    became = store.add_run(after).id
    fixed = FixedJob(
        run=became,
        attribution=after.attribution,
        state=after.verdict.state,
        headline=after.verdict.headline,
        speedup=2.5,
        low=2.0,
        high=3.0,
    )
    detail = msgspec.structs.replace(after.detail, fixed=fixed)
    store.add_run(msgspec.structs.replace(after, detail=detail))
    assert main(["runs"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{after.verdict.state}, fixed 2.50x" in shown
    assert f"whyidle compare last {became}" in shown


@pytest.mark.usefixtures("two")
def test_a_broken_entry_is_listed_as_such(capsys: pytest.CaptureFixture[str]):
    rows = listed(capsys)
    (Path(str(rows[0]["path"])) / "meta.json").write_text("{broken")
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    assert "cannot be read" in out
    assert "2 runs" in out


@pytest.mark.parametrize("words", [["delete"], ["export", "last"], ["pin"], ["list", "x"]])
def test_missing_names(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["runs", *words]) == 2
    assert f"whyidle runs {words[0]}" in capsys.readouterr().err


@pytest.mark.usefixtures("two")
def test_a_watched_command_is_listed_by_its_words(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    (explained, _), store = listed(capsys), Store(Path(".whyidle"))
    entry = store.begin_run(["python", "train.py", "--name", "my run"])
    assert main(["runs"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "not diagnosed" in out
    assert "python train.py --name 'my run'" in out
    told = read_diagnosis(Path(str(explained["path"])) / "diagnosis.json")
    several = msgspec.structs.replace(told.run, job="train.py --lr 1 (process 12)")
    store.complete_run(entry, msgspec.structs.replace(told, run=several))
    assert main(["runs"]) == 0
    assert "train.py --lr 1 (process 12)" in " ".join(capsys.readouterr().out.split())


def test_a_run_is_a_row_of_a_table_that_fits_a_terminal(
    trace: Path, capsys: pytest.CaptureFixture[str]
):
    told = diagnose_job([kineto.load(trace)])
    command = ["python", "train.py", *(f"--option-{number}" for number in range(12))]
    run = msgspec.structs.replace(told.run, command=command)
    store = Store(Path(".whyidle"))
    moments = [datetime(2026, 1, day, 3, 4, 5, tzinfo=timezone.utc) for day in (1, 2)]
    for moment in moments:
        store.add_run(msgspec.structs.replace(told, run=run), now=moment)
    store.pin_run(store.list_runs()[0])
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    head, newest, *rows = out.splitlines()
    assert newest.startswith("20260102-030405")
    first = next(row for row in rows if row.startswith("2026"))
    assert head.split() == ["run", "when", "verdict", "step", "command"]
    assert first.split("  ")[:2] == ["20260101-030405", f"{moments[0].astimezone():%Y-%m-%d %H:%M}"]
    assert "starved, pinned" in first
    assert "9.09 ms" in first
    assert all(len(line) <= 80 for line in out.splitlines())
    assert out.isascii()
    assert main(["report", "20260101-030405"]) == 0  # what is shown of an id is enough to name it


@pytest.mark.parametrize("columns", [50, 60, 80, 90, 120])
def test_a_long_command_is_shortened_in_the_middle(columns, trace: Path, monkeypatch, capsys):
    told = diagnose_job([kineto.load(trace)])
    command = ["/home/anna/projects/vision/.venv/bin/python", "train.py", "--lr", "0.1", "--end"]
    run = msgspec.structs.replace(told.run, command=command)
    Store(Path(".whyidle")).add_run(msgspec.structs.replace(told, run=run))
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["runs"]) == 0
    heading, row, *rest = capsys.readouterr().out.splitlines()
    assert heading.startswith("run ")
    assert row.endswith("--end")
    assert ("..." in row) == (columns <= 80)
    assert "/home/anna" not in row or columns == 120
    assert len(row) <= columns
    assert rest[0] == ""
