"""What fix shows while it tries."""

import time

import pytest

from whyidle.cli import _fix_progress
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.fix.loop.candidates import choose_candidates
from whyidle.testing.demo import job


@pytest.fixture(scope="module")
def seen():
    found = diagnose_job([job(loader_ms=42.0).timeline()])
    return found, choose_candidates(found, {"none", "rounding"})[0]


def test_elsewhere_each_thing_is_a_line(capfd, seen):
    with _fix_progress.FixProgress(quiet=False, budget_s=60.0) as progress:
        progress.show_stage("watching")
        progress.show_watched_job(*seen)
    lines = capfd.readouterr().err.splitlines()
    assert "watching" in lines[0]
    assert "[   0 of 60 s]" in lines[0]
    assert lines[1].startswith("whyidle: starved: ")
    assert "to try: loader-workers (predicted " in lines[2]
    assert len(lines) == 3


def test_on_a_terminal_the_clock_goes_on_during_a_trial(monkeypatch, capfd):
    monkeypatch.setattr(_fix_progress, "EVERY_S", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with _fix_progress.FixProgress(quiet=False, budget_s=60.0) as progress:
        progress.show_stage("pair 1")
        until = time.monotonic() + 5.0
        shown = ""
        while shown.count("pair 1") < 3 and time.monotonic() < until:
            time.sleep(0.01)
            shown += capfd.readouterr().err
    assert shown.count("\r\x1b[K") >= 3
    time.sleep(0.05)
    assert "pair" not in capfd.readouterr().err.rpartition("\x1b[K")[2]


def test_quiet_is_quiet(capfd, seen):
    with _fix_progress.FixProgress(quiet=True, budget_s=60.0) as progress:
        progress.show_stage("watching")
        progress.show_watched_job(*seen)
    assert capfd.readouterr().err == ""
