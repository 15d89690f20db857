"""Cases are run one by one, kept, found again; what fails is told and ends nothing."""

import sys

import msgspec
import pytest

import clinic.launch
from clinic import app, examine
from clinic.card import cases
from clinic.launch import JobError, Times, alone, command, environment, scratch
from clinic.outcome import Gain, Named, Outcome, Results, oracle_key

SHEET = """
workload = "job"
kind = "single"
[budget]
watch_s = 1
arm_s = 1
limit_s = 5
[[inject]]
cause = "sync-checkpoint"
family = "interruption"
buckets = ["interruption"]
locus = "save"
sick = { rest = 2 }
cured = { rest = 1 }
fix = "rest less"
"""
JOB = """
import argparse, json, os, sys, time
p = argparse.ArgumentParser()
for name in ("rest", "seconds"):
    p.add_argument("--" + name, type=float)
p.add_argument("--seed"), p.add_argument("--times")
a = p.parse_args()
begin = time.perf_counter()
if os.environ.get("FALLS"):
    sys.exit("fell over")
if os.environ.get("HANGS"):
    time.sleep(60)
marks = [begin + a.rest * i for i in range(1, 41)]
json.dump({"begin": begin, "marks": marks, "samples": 3}, open(a.times, "w"))
"""


@pytest.fixture
def case(tmp_path, monkeypatch):
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "007.toml").write_text(SHEET)
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.setattr("clinic.launch.WORKLOADS", tmp_path)
    monkeypatch.setattr("clinic.outcome.WORKLOADS", tmp_path)
    (one,) = cases(folder=tmp_path / "cards")
    return one


def test_a_rate_leaves_the_beginning_out():
    marks = [10.0, *(10.0 + 1.0 * i for i in range(1, 5)), *(14.0 + 0.5 * i for i in range(1, 33))]
    times = Times(begin=0.0, marks=marks, samples=4.0)
    assert times.rate("steps") == pytest.approx(8.0)
    assert times.rate("whole") == pytest.approx(4.0 * len(marks) / 30.0)
    each = Times(begin=0.0, marks=[1.0, 2.0, 3.0, 4.0], samples=[9.0, 9.0, 1.0, 3.0])
    assert each.rate("steps") == pytest.approx(2.0)
    with pytest.raises(JobError, match="2 steps"):
        Times(begin=0.0, marks=[1.0, 2.0], samples=1).rate("steps")


def test_the_cure_is_timed_in_turn_and_only_once(case, tmp_path):
    results = Results(tmp_path / "kept")
    gain = examine.measured(case, "cpu", results)["cured"]
    assert gain.ratio == pytest.approx(2.0)
    assert len(gain.pairs) == case.budget.pairs
    results.save_gains(case, "cpu", {"cured": Gain([(1.0, 3.0)])})
    assert examine.measured(case, "cpu", results)["cured"].ratio == 3.0


def test_a_small_gain_is_timed_more_often(tmp_path, case):
    even = msgspec.structs.replace(case.inject[0], cured={"rest": 1.95})
    unsure = msgspec.structs.replace(case, inject=(even,))
    gain = examine.measured(unsure, "cpu", Results(tmp_path / "kept"))["cured"]
    assert len(gain.pairs) == 2 * case.budget.pairs
    assert gain.ratio == pytest.approx(2 / 1.95)


def test_a_script_stands_alone_in_its_folder_under_a_common_name(case):
    with scratch(case) as folder:
        assert [path.name for path in folder.iterdir()] == ["train.py"]
        assert case.id not in str(folder)
    assert not folder.exists()


@pytest.mark.parametrize(("name", "words"), [("FALLS", "fell over"), ("HANGS", "longer than")])
def test_a_job_that_fails_says_so(case, monkeypatch, name, words):
    monkeypatch.setenv(name, "1")
    with pytest.raises(JobError, match=words):
        alone(case, case.arm(), "cpu")


def test_a_failed_case_is_an_outcome_and_is_run_again(case, tmp_path, monkeypatch):
    monkeypatch.setenv("FALLS", "1")
    results = Results(tmp_path / "kept")
    came = examine.examine(case, "cpu", results, oracle=False)
    assert "fell over" in came.error
    assert results.load(case, "cpu", False) is None


def test_what_is_known_is_not_run_again(case, tmp_path, monkeypatch, capsys):
    results = Results(tmp_path / "kept")
    kept = Outcome(id=case.id, mode="cpu", made="2026", options={}, state="saturated")
    results.save(case, kept, True, b"")
    assert results.load(case, "cpu", True) == kept
    assert results.load(case, "cpu", False) is None  # without timings it is another outcome
    monkeypatch.setattr(app, "cases", lambda *_: [case])
    monkeypatch.setattr(app, "examine", lambda *_, **__: pytest.fail("it was run"))
    assert app.main(["run", "--results", str(tmp_path / "kept")]) == 0
    assert "1 cases, 1 known" in capsys.readouterr().out
    assert (
        app.main(["report", "--results", str(tmp_path / "kept"), "--write", str(tmp_path / "p.md")])
        == 0
    )
    assert "| c0070 | job |" in (tmp_path / "p.md").read_text()
    assert (tmp_path / "clinic.svg").read_text().startswith("<svg")


def test_an_outcome_of_another_version_is_told_only_when_asked(case, tmp_path, monkeypatch):
    results = Results(tmp_path / "kept")
    job = oracle_key(case, "cpu")
    kept = Outcome(id=case.id, mode="cpu", made="2026", options=case.arm(), job=job)
    results.save(case, kept, False, b"")
    results.save_gains(case, "cpu", {"cured": Gain([(1.0, 2.0)])})
    monkeypatch.setattr("clinic.outcome.product", lambda: "another")
    assert results.load(case, "cpu", False) is None
    assert results.latest(case, "cpu").gains["cured"].ratio == 2.0
    (tmp_path / "job.py").write_text(JOB + "# changed")
    assert results.latest(case, "cpu") is None


def test_other_seeds_are_other_outcomes(case, tmp_path):
    results = Results(tmp_path)
    (other,) = cases(5, folder=tmp_path / "cards")
    assert results.path(case, "cpu", True) != results.path(other, "cpu", True)


def test_what_is_typed(case):
    options = {"workers": 2, "keep": True, "off": False, "$OMP_NUM_THREADS": 4, "@ranks": 2}
    words = command(options, "gpu", 3.0, "steps")
    assert words[:6] == [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
    ]  # fmt: skip
    assert words[6:] == [
        "train.py",
        "--seconds",
        "3.0",
        "--device",
        "cuda",
        "--workers",
        "2",
        "--keep",
    ]
    assert environment(options)["OMP_NUM_THREADS"] == "4"
    assert environment({})["OMP_NUM_THREADS"] == "1"
    assert "--seconds" not in command(options, "cpu", 3.0, "whole")
    assert command({"@cores": 1}, "cpu", 3.0, "steps")[:2] == ["taskset", "-c"]


def test_one_timed_job_at_a_time(tmp_path):
    with clinic.launch.turn(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()
    with clinic.launch.turn(None):
        pass


def test_unknown_cases_are_refused():
    with pytest.raises(SystemExit, match="c9999"):
        app.main(["list", "--cases", "c9999"])


def test_the_list_names_every_case(capsys):
    assert app.main(["list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(
        [c for c in cases() if "cpu" in c.modes]
    )


def test_the_floor_speaks_of_cases_that_exist():
    known = {case.id for case in cases()}
    assert set(app.floor().cases) <= known


def test_the_fixed_subset_fails_below_its_floor(case, monkeypatch, capsys):
    bound = app.Floor(cases=[case.id], top1=0.9, bucket=0.9, alarms=0, seconds=60.0)
    monkeypatch.setattr(app, "floor", lambda: bound)
    named = Named(
        cause="sync-checkpoint", family="interruption", bucket="interruption",
        severity="warning", lost=0.5, predicted={"async-checkpoint": (2.0, 1.5, 2.5)},
    )  # fmt: skip
    right = Outcome(id=case.id, mode="cpu", made="2026", options={}, named=[named])
    wrong = msgspec.structs.replace(right, named=[])
    failed = msgspec.structs.replace(right, error="fell over")
    healthy = msgspec.structs.replace(case, kind="healthy", inject=())
    assert app.hold([(case, right)], 50.0) == 0
    assert app.hold([(case, right)], 70.0) == 1
    assert app.hold([(case, wrong)], 50.0) == 1
    assert "top-1 0 % is below 90 %" in capsys.readouterr().out
    assert app.hold([(case, right), (healthy, right)], 50.0) == 1
    assert app.hold([(case, failed)], 50.0) == 1
