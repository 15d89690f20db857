"""What fix shows while it tries."""

import time

import pytest

from whyidle.cli import _trying
from whyidle.engine.diagnose import diagnose
from whyidle.engine.trial.candidates import candidates
from whyidle.engine.trial.judgement import UNTOLD, Judgement
from whyidle.engine.trial.pair import Effect
from whyidle.testing.demo import job


@pytest.fixture(scope="module")
def seen():
    found = diagnose([job(loader_ms=42.0).timeline()])
    return found, candidates(found, {"none", "rounding"})[0]


def test_elsewhere_each_thing_is_a_line(capfd, seen):
    with _trying.Progress(quiet=False, budget_s=60.0) as progress:
        progress.say("watching")
        progress.seen(*seen)
    lines = capfd.readouterr().err.splitlines()
    assert "watching" in lines[0]
    assert "[   0 of 60 s]" in lines[0]
    assert lines[1].startswith("whyidle: starved: ")
    assert "to try: loader-workers (predicted " in lines[2]
    assert len(lines) == 3


def test_that_nothing_can_be_tried_is_said(capfd, seen):
    with _trying.Progress(quiet=False, budget_s=60.0) as progress:
        progress.seen(seen[0], [])
    assert "nothing to try" in capfd.readouterr().err


def test_on_a_terminal_the_clock_goes_on_during_a_trial(monkeypatch, capfd):
    monkeypatch.setattr(_trying, "EVERY_S", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with _trying.Progress(quiet=False, budget_s=60.0) as progress:
        progress.say("pair 1")
        until = time.monotonic() + 5.0
        shown = ""
        while shown.count("pair 1") < 3 and time.monotonic() < until:
            time.sleep(0.01)
            shown += capfd.readouterr().err
    assert shown.count("\r\x1b[K") >= 3
    time.sleep(0.05)
    assert "pair" not in capfd.readouterr().err.rpartition("\x1b[K")[2]


def test_quiet_is_quiet(capfd, seen):
    with _trying.Progress(quiet=True, budget_s=60.0) as progress:
        progress.say("watching")
        progress.seen(*seen)
    assert capfd.readouterr().err == ""


def test_what_could_not_be_told_is_an_interval(capfd, seen):
    told = Judgement(seen[1][0], reason=UNTOLD, effect=Effect(0.76, 0.22, 2.64, 4))
    with _trying.Progress(quiet=False, budget_s=60.0) as progress:
        progress.judged(told)
    said = capfd.readouterr().err
    assert "0.22 to 2.64 times as fast, no gain that could be told" in said
    assert "0.76" not in said


def test_an_interval_that_says_nothing_is_not_told(capfd, seen):
    told = Judgement(seen[1][0], reason=UNTOLD, effect=Effect(1.1, 0.01, 108.0, 2))
    with _trying.Progress(quiet=False, budget_s=60.0) as progress:
        progress.judged(told)
    assert "not kept: loader-workers, no gain that could be told" in capfd.readouterr().err


def test_lines_that_stay_are_folded_between_words(monkeypatch, capfd, seen):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    with _trying.Progress(quiet=False, budget_s=60.0) as progress:
        progress.seen(*seen)
    lines = capfd.readouterr().err.replace("\r\x1b[K", "").splitlines()
    assert len(lines) > 2
    assert all(len(line) < 60 for line in lines)
    words = seen[0].verdict.headline.partition(". ")[0].split()
    assert " ".join(" ".join(lines).split()).startswith(f"whyidle: starved: {' '.join(words)}")
