"""Cases are run one by one, kept, found again; what fails is told and ends nothing."""

import msgspec
import pytest

from clinic import app, examine, floor
from clinic.card import cases
from clinic.outcome import Gain, Named, Outcome, Results, oracle_key
from clinic.times import JobError, Times

pytestmark = pytest.mark.real_processes("jobs are timed in turns")

CHOSEN, EXAMINE = "clinic.verbs._chosen.cases", "clinic.verbs.run.examine"
"""where the command line has them from"""


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
    assert gain.ratio == pytest.approx(3.0)
    assert len(gain.pairs) == 1, "a clear gain needs no second pair"
    assert results.gains(case, "cpu")["cured"].seconds == gain.seconds > 0
    results.save_gains(case, "cpu", {"cured": Gain([(1.0, 4.0)])})
    assert examine.measured(case, "cpu", results)["cured"].ratio == 4.0


def test_a_failed_case_is_an_outcome_and_is_run_again(case, tmp_path, monkeypatch):
    monkeypatch.setenv("FALLS", "1")
    results = Results(tmp_path / "kept")
    came = examine.examine(case, "cpu", results, oracle=False)
    assert "fell over" in came.error
    assert results.load(case, "cpu", False) is None


def outcome(case, **more):
    told = {"job": oracle_key(case, "cpu"), "state": "saturated", "product": "this", **more}
    told = {"mode": "cpu", **told}
    return Outcome(id=case.id, made="2026-01-02", options=case.arm(), **told)


def clinic_on(case, monkeypatch, tmp_path):
    """The command line, with one case and a folder of its own."""
    monkeypatch.setattr(CHOSEN, lambda *_: [case])

    def words(*more):
        return app.main([*more, "--results", str(tmp_path / "kept")])

    return words


def test_what_is_known_is_not_run_again(case, tmp_path, monkeypatch, capsys):
    results = Results(tmp_path / "kept")
    results.save(case, outcome(case), b"")
    results.save_gains(case, "cpu", {"cured": Gain([(1.0, 2.0)])})
    clinic = clinic_on(case, monkeypatch, tmp_path)
    monkeypatch.setattr(EXAMINE, lambda *_, **__: pytest.fail("it was run"))
    assert clinic("run") == 0
    assert "1 cases, 1 known" in capsys.readouterr().out
    assert clinic("report", "--write", str(tmp_path / "page.md")) == 0
    assert "| c0070 | job |" in (tmp_path / "page.md").read_text()
    assert (
        "![What was planted, and what was named first](page.svg)"
        in (tmp_path / "page.md").read_text()
    )
    assert (tmp_path / "page.svg").read_text().startswith("<svg")


def _outcomes(case):
    """What was planted is named, and nothing is."""
    named = Named(
        cause="sync-checkpoint", family="interruption", bucket="interruption",
        severity="warning", lost=0.5, predicted={"async-checkpoint": (2.0, 1.5, 2.5)},
    )  # fmt: skip
    right = Outcome(id=case.id, mode="cpu", made="2026", options={}, named=[named])
    return right, msgspec.structs.replace(right, named=[])


def test_the_floor_speaks_of_cases_that_exist():
    known = {case.id for case in cases()}
    assert set(floor.read().cases) <= known


def test_the_fixed_subset_fails_below_its_floor(case, monkeypatch, capsys):
    bound = floor.Floor(cases=[case.id], top1=0.9, bucket=0.9, alarms=0, seconds=60.0)
    monkeypatch.setattr(floor, "read", lambda: bound)
    right, wrong = _outcomes(case)
    failed = msgspec.structs.replace(right, error="fell over")
    healthy = msgspec.structs.replace(case, kind="healthy", inject=())
    assert floor.hold([(case, right)], 50.0) == 0
    assert floor.hold([(case, right)], 70.0) == 1
    assert floor.hold([(case, wrong)], 50.0) == 1
    assert "top-1 0 % is below 90 %" in capsys.readouterr().out
    assert floor.hold([(case, right), (healthy, right)], 50.0) == 1
    assert floor.hold([(case, failed)], 50.0) == 1
