"""Of several jobs of a command those that tell most are told in full, each other one in a line."""

import argparse
import json

import msgspec
import pytest
from imagined import MS, Imagined

from whyidle.cli import _job_reports
from whyidle.record.recording_diagnosis import diagnose_jobs, note_end
from whyidle.store.entry import RECORDING
from whyidle.store.run_store import Store


def options(tmp_path, **given):
    told = {
        "json": None,
        "markdown": None,
        "html": None,
        "export": [],
        "all": False,
        "quiet": False,
    }
    return argparse.Namespace(**{**told, "store": tmp_path / "store", **given})


@pytest.fixture
def begun(tmp_path):
    """A run that is being watched, and what adds a job to it."""
    entry = Store(tmp_path / "store").begin_run(["sh", "all.sh"])
    recording = entry.path / RECORDING
    note_end(recording, entry.id, ["sh", "all.sh"], None)
    jobs = []

    def job(steps, length=20 * MS, loader=0):
        number = 100 + len(jobs)
        jobs.append(number)
        folder = tmp_path / str(number)
        folder.mkdir()
        made = Imagined(folder, argv=[f"train{number}.py"], pid=number, first_step=number)
        for _ in range(steps):
            made.step(length, loader)
        made.trained()
        for path in folder.iterdir():
            path.rename(recording / f"{number}.{path.name.partition('.')[2]}")

    return entry, recording, job


def told(capsys):
    return capsys.readouterr().err


def test_one_job_is_told_as_ever(begun, tmp_path, capsys):
    entry, recording, job = begun
    job(40)
    _job_reports.report_jobs(options(tmp_path), recording, entry)
    text = told(capsys)
    assert "whyidle report last --store" in text
    assert "job train" not in text
    assert (entry.path / "diagnosis.json").exists()


def test_children_that_would_say_the_same_get_a_line_each(begun, tmp_path, capsys):
    entry, recording, job = begun
    for steps in (40, 90, 30, 50):
        job(steps, loader=40 * MS)
    job(60, 40 * MS)
    _job_reports.report_jobs(options(tmp_path), recording, entry)
    text = told(capsys)
    full, brief = text.split("3 more jobs")
    assert full.index("job train101.py (process 101)") < full.index("job train104.py")
    assert full.count("steps of") == 2
    rows = [line for line in brief.splitlines() if "train10" in line]
    assert [row.split("train")[1][:3] for row in rows] == ["100", "102", "103"]
    ids = [run.name for run in sorted((tmp_path / "store" / "runs").iterdir())]
    assert len(ids) == 5
    assert all(
        any(line.strip().startswith(run) for line in brief.splitlines())
        for run in (ids[0], ids[2], ids[3])
    )
    assert "whyidle report RUN --store" in brief
    assert f"whyidle report {ids[1]} --store" in full  # the newest is another


def test_a_job_that_hardly_trained_gets_a_line_whatever_it_says(begun, tmp_path, capsys):
    entry, recording, job = begun
    job(200, loader=40 * MS)
    job(3)
    _job_reports.report_jobs(options(tmp_path), recording, entry)
    assert "1 more job" in told(capsys)


def test_all_tells_all(begun, tmp_path, capsys):
    entry, recording, job = begun
    for _ in range(5):
        job(30)
    _job_reports.report_jobs(options(tmp_path, all=True), recording, entry)
    text = told(capsys)
    assert text.count("job train") == 5
    assert "more jobs" not in text


def test_no_output_overwrites_another(begun, tmp_path, capsys):
    entry, recording, job = begun
    job(30, loader=40 * MS)
    job(80, 40 * MS)
    _job_reports.report_jobs(options(tmp_path, json=str(tmp_path / "why.json")), recording, entry)
    names = {
        path.name: json.loads(path.read_text())["run"]["job"] for path in tmp_path.glob("why*.json")
    }
    assert names == {
        "why.json": "train101.py (process 101)",
        "why-2.json": "train100.py (process 100)",
    }


def test_a_store_that_refuses_costs_no_report(begun, tmp_path, capsys, monkeypatch):
    entry, recording, job = begun
    job(40)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("whyidle.store.run_store.write_atomic", full)
    _job_reports.report_jobs(options(tmp_path), recording, entry)
    text = told(capsys)
    assert "not stored: Cannot write the store" in text
    assert "No space left on device" in text
    assert "40 steps" in text or "steps of 20.0 ms" in text


def test_quiet_is_quiet(begun, tmp_path, capsys):
    entry, recording, job = begun
    for _ in range(5):
        job(30)
    _job_reports.report_jobs(options(tmp_path, quiet=True), recording, entry)
    assert told(capsys) == ""


def test_at_most_three_are_told_in_full(begun):
    _, recording, job = begun
    job(30)
    (one,) = diagnose_jobs(recording)
    places = [
        msgspec.structs.replace(one.verdict, state=state)
        for state in ("starved", "inefficient", "saturated", "inconclusive")
    ]
    jobs = [msgspec.structs.replace(one, verdict=verdict) for verdict in places]
    assert _job_reports.choose_detailed_jobs(jobs) == [0, 1, 2]
