"""`whyidle explain`, from the command line to the streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whyidle.__main__ import main


def test_says_verdict_finding_and_next_command(trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", str(trace)]) == 0
    out, err = capsys.readouterr()
    assert "STARVED" in out
    assert "dataloader-no-workers" in out
    assert "whyidle report last" in out
    assert err == ""
    assert out.isascii()


def test_json_on_stdout_is_all_there_is(trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", str(trace), "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"] == "whyidle/diagnosis/1"
    assert err == ""


def test_gate(trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", str(trace), "-q", "--fail-on", "critical"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "dataloader-no-workers" in err


def test_a_diagnosis_is_explained_too(trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", str(trace), "--no-store", "-q", "--json", "d.json"]) == 0
    assert main(["explain", "d.json", "--json", "-"]) == 0
    assert capsys.readouterr().out == Path("d.json").read_text()


def test_never_overwrites_its_input(trace: Path, capsys: pytest.CaptureFixture[str]):
    before = trace.read_bytes()
    assert main(["explain", str(trace), "--json", str(trace)]) == 2
    assert trace.read_bytes() == before
    assert "overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["explain", "missing.json"], 1, "does not exist"),
        (["explain"], 2, "PATH"),
        (["expalin", "x"], 2, "whyidle explain"),
        (["mend", "train.py"], 2, "Unknown command 'mend'"),
        ([], 2, "--help"),
        (["explain", ".", "--json", "no/such/d.json"], 1, "mkdir -p"),
        (["explain", ".", "--json", "-", "--markdown", "-"], 2, "Only one"),
        (["explain", "."], 1, "no files"),
    ],
)
def test_errors_say_what_and_what_next(
    arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_a_store_that_refuses_costs_a_note(trace: Path, capsys: pytest.CaptureFixture[str]):
    Path("taken").write_text("a file")
    assert main(["explain", str(trace), "--store", "taken"]) == 0
    out, err = capsys.readouterr()
    assert "STARVED" in out
    assert "not stored" in err


def test_the_next_commands_name_the_store(trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "--store", "my store", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "whyidle report last --store 'my store' --html why.html" in out
    assert main(["report", "last", "--store", "my store"]) == 0
    assert main(["runs", "--store", "my store"]) == 0
    assert "whyidle report last --store 'my store'" in capsys.readouterr().out
