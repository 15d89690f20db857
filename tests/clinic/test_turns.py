"""What runs beside what, how it is stopped, and how long all of it took."""

import threading
import time

import msgspec
import pytest
from sheets import sheet

import clinic.launch
import clinic.runs
from clinic import app, examine
from clinic.card import cases
from clinic.launch import StoppedError
from clinic.outcome import Outcome
from clinic.times import JobError, Times
from clinic.turns import turns

pytestmark = pytest.mark.real_processes("jobs wait for each other in processes of their own")

CHOSEN, EXAMINE = "clinic.verbs._chosen.cases", "clinic.verbs.run.examine"
"""where the command line has them from"""
HABIT = 'sick = { rest = 2 }\ncured = { rest = 1 }\nfix = "rest less"'


@pytest.fixture
def case(tmp_path, monkeypatch):
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "007.toml").write_text(sheet(workload="job", habit=HABIT))
    monkeypatch.setattr("clinic.launch.WORKLOADS", tmp_path)
    monkeypatch.setattr("clinic.outcome.WORKLOADS", tmp_path)
    (one,) = cases(folder=tmp_path / "cards")
    return one


def several(case, count, first=100, **more):
    return [msgspec.structs.replace(case, id=f"c{first + i:04}", **more) for i in range(count)]


def outcome(case, mode="cpu", **more):
    return Outcome(id=case.id, mode=mode, made="2026-01-02", options={}, state="starved", **more)


def test_only_idle_hosts_run_beside_each_other(case):
    asleep = [(one, "emulated") for one in several(case, 7, 1000, beside=True)]
    awake = [(one, "emulated") for one in several(case, 2, 1100)]
    busy = [(one, "cpu") for one in several(case, 5)]
    told = [(one, "recorded") for one in several(case, 2, 2000)]
    found = list(turns([*told, *busy, *awake, *asleep], 3))
    assert [len(turn) for turn in found] == [3, 3, 1, *[1] * 9]
    assert [mode for turn in found for _, mode in turn] == (
        ["emulated"] * 9 + ["cpu"] * 5 + ["recorded"] * 2
    )
    assert all(one.beside for turn in found[:3] for one, _ in turn)
    assert sorted(one.id for turn in found for one, _ in turn) == sorted(
        one.id for one, _ in [*told, *busy, *awake, *asleep]
    )


@pytest.mark.parametrize(("beside", "most"), [(True, 3), (False, 1)])
def test_so_many_run_at_a_time(case, tmp_path, monkeypatch, beside, most):
    now, seen = [], []

    def busy(one, *_, **__):
        now.append(one)
        seen.append(len(now))
        time.sleep(0.05)
        now.remove(one)
        return outcome(one, "emulated")

    jobs = several(case, 6, modes=("emulated",), beside=beside)
    monkeypatch.setattr(CHOSEN, lambda *_: jobs)
    monkeypatch.setattr(EXAMINE, busy)
    words = ["run", "--mode", "emulated", "--jobs", "3", "--no-oracle"]
    lock = tmp_path / "lock"
    assert app.main([*words, "--results", str(tmp_path / "kept"), "--lock", str(lock)]) == 0
    assert max(seen) == most
    assert len(seen) == 6


def test_who_stops_it_finds_the_page_of_what_is_done(case, tmp_path, monkeypatch, capsys):
    done = []

    def stopped(one, *_, **__):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(one.id)
        return outcome(one)

    monkeypatch.setattr(CHOSEN, lambda *_: several(case, 5))
    monkeypatch.setattr(EXAMINE, stopped)
    written = tmp_path / "page.md"
    words = ["run", "--no-oracle", "--results", str(tmp_path), "--write", str(written)]
    assert app.main(words) == app.STOPPED
    said = written.read_text()
    assert "**3 more cases of this mode were not run.**" in said
    assert all(f"| {name} | job |" in said for name in done)


def test_whoever_leaves_early_ends_what_runs(case, tmp_path):
    (tmp_path / "job.py").write_text("import time; time.sleep(60)")
    came = []

    def timed():
        try:
            clinic.runs.alone(case, case.arm(), "cpu")
        except (StoppedError, JobError) as error:
            came.append(error)

    def left():
        with clinic.launch.stoppable():
            one.start()
            raise KeyboardInterrupt

    one = threading.Thread(target=timed)
    with pytest.raises(KeyboardInterrupt):
        left()
    one.join(10)
    assert [type(error) for error in came] == [StoppedError]
    with pytest.raises(StoppedError):  # and nothing more begins
        clinic.runs.alone(case, case.arm(), "cpu")
    (tmp_path / "job.py").write_text("")
    with clinic.launch.stoppable(), pytest.raises(JobError, match="no times"):
        clinic.runs.alone(case, case.arm(), "cpu")


@pytest.mark.parametrize(
    ("rates", "pairs"),
    [
        ([1.0, 1.05, 1.05, 1.0], 2),  # near 1, and both pairs say so
        ([1.0, 1.0, 1.09, 1.0, 1.0, 1.05, 1.05, 1.0, 1.0, 1.0], 5),  # near 1, and they differ
        ([1.0, 1.01, 1.11, 1.1, 1.0, 1.01, 1.11, 1.1, 1.0, 1.01], 5),  # they agree, all drifts
        ([1.0, 1.15, 1.3, 1.0], 2),  # they differ, and it does not matter
        ([1.0, 1.5, 1.6, 1.0], 2),  # how much it is hangs on the machine
        ([1.0, 2.6], 1),
        ([1.0, 0.9, 0.8, 1.0, 1.0, 1.1, 1.1, 1.0, 1.0, 1.1], 5),  # slower by chance
        ([1.0, 0.8, 0.8, 1.0], 2),  # slower, and both pairs say so
    ],
)
def test_there_are_as_many_pairs_as_it_takes(case, monkeypatch, rates, pairs):
    waiting = list(rates)

    def told(*_):
        rate = waiting.pop(0)
        return Times(begin=0.0, marks=[i / rate for i in range(10)], samples=1)

    monkeypatch.setattr(clinic.runs, "alone", told)
    gains = examine.paired(case, "cpu")
    assert len(gains["cured"].pairs) == pairs
    assert not waiting
