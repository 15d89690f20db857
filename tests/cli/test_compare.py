"""`whyidle compare`, its gate included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whyidle.__main__ import main


def test_says_what_changed(trace: Path, fixed: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(trace), str(fixed)]) == 0
    out = capsys.readouterr().out
    assert "as fast" in out
    assert "loader" in out
    assert "gone: dataloader-no-workers" in out


def test_gate_fails_on_a_real_regression(
    trace: Path, fixed: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", str(fixed), str(trace), "-q", "--max-regression", "5%"]) == 3
    assert "slower" in capsys.readouterr().err
    assert main(["compare", str(fixed), str(trace), "-q", "--max-regression", "500"]) == 0
    assert main(["compare", str(trace), str(fixed), "-q", "--max-regression", "0"]) == 0
    assert main(["compare", str(trace), str(trace), "-q", "--max-regression", "0"]) == 0


def test_stored_runs_and_json(trace: Path, fixed: Path, capsys: pytest.CaptureFixture[str]):
    for path in (trace, fixed):
        assert main(["explain", str(path), "-q"]) == 0
    assert main(["compare", "last~1", "last", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "whyidle/comparison/1"
    assert document["reasons"][0]["name"] == "loader"
    assert document["step"]["real"] is True


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nowhere", "trace.json.gz"], 1, "neither a path nor a stored run"),
        (["trace.json.gz"], 2, "--help"),
        (["trace.json.gz", "trace.json.gz", "--max-regression", "-3"], 2, "--max-regression"),
        (["trace.json.gz", "trace.json.gz", "--json", "trace.json.gz"], 2, "overwrite"),
    ],
)
def test_errors(
    arguments: list[str], status: int, said: str, trace: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", *arguments]) == status
    assert said in capsys.readouterr().err


def test_several_runs_stand_in_a_table(
    trace: Path, fixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page, text = tmp_path / "runs.html", tmp_path / "runs.md"
    names = [str(trace), str(fixed), str(trace)]
    status = main(["compare", *names, "--html", str(page), "--markdown", str(text)])
    assert status == 0
    assert "has the shortest step" in capsys.readouterr().out
    assert page.read_text().count('class="bar thin"') == 3
    assert text.read_text().startswith("### ")
    assert main(["compare", *names, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "whyidle/run-table/1"
    assert [row["change"] is None for row in document["runs"]] == [True, False, False]


def test_the_gate_holds_for_every_run_of_a_table(trace: Path, fixed: Path):
    gate = [str(fixed), str(fixed), str(trace), "-q", "--max-regression", "5"]
    assert main(["compare", *gate]) == 3
