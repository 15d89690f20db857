"""Time before the first step, against the rest of the process's life."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from imagined import MS, Imagined, S, finding

from whyidle.record.recording_diagnosis import read_recording
from whyidle.testing.contracts import Pair

SCAN = "/home/me/train.py(12): scan;/home/me/train.py(40): <module>"
IMPORT = (
    "/env/lib/python3.11/site-packages/big/__init__.py(3): <module>;"
    "<frozen importlib._bootstrap>(241): _call_with_frames_removed;/home/me/train.py(3): <module>"
)


def made(folder):
    folder.mkdir()
    return folder


def job(folder, start, steps=50, first=0):
    made = Imagined(folder)
    for stack, length in start:
        made.look(stack, length)
    for number in range(steps):
        made.step(loader=first if number == 0 and first else MS)
    made.trained()
    return made.diagnose()


def test_a_scan_before_the_first_step(tmp_path):
    told = job(tmp_path, [(IMPORT, 2 * S), (SCAN, 6 * S)])
    first = told.findings[0]
    assert first.cause == "slow-startup"
    assert first.severity == "warning"  # a longer run would lose next to nothing
    assert (first.where[0].file, first.where[0].line) == ("/home/me/train.py", 12)
    assert "8 s after" in first.headline
    assert "75% of it in scan" in first.headline
    assert first.lost.low == 0.0
    assert first.lost.high == pytest.approx(8 / 9.05, abs=0.02)
    promised = first.fixes[0].predicted  # without the scan's 6 s
    assert 1 / promised.speedup == pytest.approx((9.05 - 6) / 9.05, abs=0.03)
    assert promised.low == 1.0
    assert "lies before the first step" in told.verdict.headline
    assert told.steps.p50_s == pytest.approx(0.021)
    evidence = {one.quantity: one.value for one in first.evidence}
    assert evidence["importing"] == pytest.approx(2.0, abs=0.1)
    assert evidence["from start to import"] == 2.0


def test_a_start_up_is_a_remark_where_a_trial_cut_the_job_short(tmp_path):
    (tmp_path / f"{os.getpid()}.trial.json").write_text('{"ended": "stopped"}')
    told = job(tmp_path, [(SCAN, 6 * S)])
    assert finding(told, "slow-startup").severity == "info"
    assert "before the first step" not in told.verdict.headline
    assert told.attribution.compute > 0.9


def test_all_lines_of_a_function_go_with_it_and_no_other_line_of_a_module(tmp_path):
    lines = [(SCAN, 4 * S), (SCAN.replace("(12)", "(13)"), 2 * S), (SCAN.split(";")[1], 2 * S)]
    told = job(made(tmp_path / "function"), lines).findings[0]
    assert "75% of it in scan" in told.headline
    assert 1 / told.fixes[0].predicted.speedup == pytest.approx(3.05 / 9.05, abs=0.03)
    module = [(f"/home/me/train.py({line}): <module>", 2 * S) for line in (3, 4, 5, 5)]
    told = job(made(tmp_path / "module"), module).findings[0]
    assert "50% of it at line 5" in told.headline


def test_a_first_batch_that_takes_long_is_start_up(tmp_path):
    told = job(tmp_path, [(SCAN, S)], first=7 * S)
    assert told.findings[0].cause == "slow-startup"
    assert told.attribution.interruption == pytest.approx(8 / 9.05, abs=0.02)


def test_in_a_long_run_it_is_a_remark_and_shares_stay_those_of_steps(tmp_path):
    told = job(tmp_path, [(SCAN, 6 * S)], steps=1000)
    found = finding(told, "slow-startup")
    assert (found.severity, found.lost.high) == ("info", 0.0)
    assert told.attribution.compute > 0.9


def test_a_start_up_of_imports_is_not_told(tmp_path):
    told = job(tmp_path, [(IMPORT, 9 * S), (SCAN, S)], steps=100)
    assert finding(told, "slow-startup") is None
    assert told.attribution.compute > 0.9


@pytest.mark.parametrize(("length", "first"), [(8 * S, "dataloader"), (25 * S, "slow-startup")])
def test_a_short_one_does_not_hide_what_is_slow_in_the_steps(tmp_path, length, first):
    made = Imagined(tmp_path)
    made.look(SCAN, length)
    for _ in range(60):
        made.step(length=60 * MS, loader=40 * MS)
    made.trained()
    told = made.diagnose()
    assert told.findings[0].cause.startswith(first)
    startup = finding(told, "slow-startup")
    assert (startup.severity == "info") == (first != "slow-startup")


@pytest.mark.parametrize(("length", "steps"), [(2 * S, 20), (4 * S, 10_000)])
def test_what_nobody_waits_for_is_not_told(tmp_path, length, steps):
    assert finding(job(tmp_path, [(SCAN, length)], steps), "slow-startup") is None


def build_recording(scan_s):
    """A recording whose process scans its files for so long before the first step."""
    with TemporaryDirectory() as folder:
        job(Path(folder), [(SCAN, round(scan_s * S))])
        return read_recording(Path(folder))


PAIRS = {
    "slow-startup": Pair(sick=lambda: build_recording(6.0), healthy=lambda: build_recording(0.02))
}
