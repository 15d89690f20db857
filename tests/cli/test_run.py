"""`whyidle run`: what happens to us after the command has ended, and which status then stands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle.__main__ import main
from whyidle.store.run_store import Store

COMMAND = [sys.executable, "-c", "raise SystemExit(3)"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("a planted fault"), "no diagnosis: ValueError: a planted fault"),
        (MemoryError("a planted fault"), "no diagnosis: MemoryError"),
        (KeyboardInterrupt(), "interrupted before the diagnosis was ready"),
    ],
)
def test_a_failing_diagnosis_keeps_status_and_evidence(
    error: BaseException,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def broken(_: Path) -> None:
        raise error

    with monkeypatch.context() as planted:
        planted.setattr("whyidle.record.recording_diagnosis.diagnose_jobs", broken)
        assert main(["run", *COMMAND]) == 3
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    (entry,) = Store(Path(".whyidle")).list_runs()
    assert f"the recording is stored: whyidle report {entry.id}" in err
    assert main(["report", entry.id]) == 0


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--json", "why.json"), 1)])
def test_a_diagnosis_that_fails_is_a_status_where_an_output_was_asked_for(
    options: tuple[str, ...], status: int, monkeypatch: pytest.MonkeyPatch
):
    def broken(_: Path) -> None:
        raise ValueError("a planted fault")

    monkeypatch.setattr("whyidle.record.recording_diagnosis.diagnose_jobs", broken)
    assert main(["run", *options, sys.executable, "-c", "pass"]) == status


def test_without_telemetry_there_is_an_answer_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def closed(_: object) -> None:
        raise OSError("nothing can be read here")

    monkeypatch.setattr("whyidle.record.monitor.live_sources", closed)
    assert main(["run", *COMMAND]) == 3
    err = capsys.readouterr().err
    assert "No training step was seen" in " ".join(err.split())
    assert "Traceback" not in err


def test_a_store_that_cannot_be_written_costs_the_store_only(capsys: pytest.CaptureFixture[str]):
    Path("file").write_text("where the store should be")
    assert main(["run", "--store", "file", "--json", "why.json", *COMMAND]) == 3
    err = capsys.readouterr().err
    assert "not stored: Cannot write the store file" in err
    assert Path("why.json").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("own", "status"), [(0, 1), (3, 3)])
def test_an_output_that_cannot_be_written_is_a_status_where_the_command_has_none(own, status):
    command = [sys.executable, "-c", f"raise SystemExit({own})"]
    words = [sys.executable, "-m", "whyidle", "run", "--html", "/dev/full", *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert "Cannot write /dev/full. No space left on device." in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert "No training step was seen" in " ".join(done.stderr.split())  # it is said all the same


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("option", "kept"), [((), True), (("--no-store",), False)])
def test_what_was_not_stored_is_not_offered_again(option, kept, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "-q", "--json", "/dev/full", *option, *COMMAND]) == 3
    err = capsys.readouterr().err
    assert "Choose another file" in err
    assert ("run whyidle report last to write the stored diagnosis" in err) == kept


def test_what_is_odd_about_a_plan_is_said_before_the_command(capsys: pytest.CaptureFixture[str]):
    plan = 'schema = "whyidle/plan/1"\ncommand = ["python", "-m", "pkg.train"]\n'
    Path("plan.toml").write_text(f'{plan}made = ""\nwhyidle = "0.1.0"\n')
    assert main(["run", "--plan", "plan.toml", *COMMAND]) == 3
    err = capsys.readouterr().err
    assert err.startswith("whyidle: The plan changes nothing: it has no fix.\n")


def test_a_document_on_standard_output_is_alone_there(capfd: pytest.CaptureFixture[str]):
    said = "import sys; print('the job says')"
    main(["run", "--no-live", "--json", "-", sys.executable, "-c", said])
    out, err = capfd.readouterr()
    assert json.loads(out)["schema"] == "whyidle/diagnosis/1"
    assert "the job says" in err


def test_a_rule_stands_between_the_last_line_of_the_job_and_the_report(capfd):
    said = "import sys; print('last words', file=sys.stderr)"
    main(["run", "--no-live", "--no-store", sys.executable, "-c", said])
    lines = capfd.readouterr().err.splitlines()
    after = lines[lines.index("last words") + 1 :]
    rule = next(line for line in after if line.startswith("--- whyidle ---"))
    assert any(line.strip() for line in after[after.index(rule) + 1 :])
