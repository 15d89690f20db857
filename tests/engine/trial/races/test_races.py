"""What every race must hold to, and how each decides who goes on; arms are made up."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from whyidle import catalog
from whyidle.engine.trial import races
from whyidle.engine.trial.arm import Asked, Ran
from whyidle.engine.trial.engine import Entry
from whyidle.engine.trial.told import Rung, Told

RUNGS = 3
EVERY = [catalog.module(races.FOLDER, name) for name in catalog.names(races.FOLDER)]


@pytest.fixture(params=EVERY, ids=lambda one: one.__name__.rpartition(".")[2])
def race(request):
    needs = request.param.NEEDS
    if needs and find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    return request.param.race


class Arms:
    """Entry ``n`` takes ``step_s[n]``, or what it is told at each rung, or crashes (None)."""

    def __init__(self, *step_s):
        self.step_s = step_s
        self.entries = [Entry(Asked(seed=n), Path(f"arm-{n}")) for n in range(len(step_s))]
        self.ran, self.rungs = [], {}

    def __call__(self, entry, go_on):
        number = entry.asked.seed
        self.ran.append(number)
        each = self.step_s[number]
        if each is None:
            return Ran("crashed", 1, 1.0, entry.folder, "")
        times = each if isinstance(each, tuple) else (each,) * RUNGS
        for rung in range(1, RUNGS + 1):
            self.rungs[number] = rung
            told = Rung(rung, times[rung - 1])
            if go_on is not None and not go_on(told):
                return Ran("outrun", None, 1.0, entry.folder, "", rung=told)
        marks = [int(i * times[-1] * 1e9) for i in range(40)]
        stopped = Told("stopped", 0, marks, [])
        return Ran("stopped", 0, 1.0, entry.folder, "", stopped, rung=told)

    def race(self, how):
        return how(self.entries, self)


def test_the_best_is_found_wherever_it_stands(race):
    for step_s in ((1.0, 2.0, 3.0), (2.0, 1.0, 3.0), (3.0, 2.0, 1.0)):
        arms = Arms(*step_s)
        found = arms.race(race)
        through = {n: step_s[n] for n, ran in enumerate(found) if ran is not None and ran.good}
        assert min(through, key=through.get) == step_s.index(1.0)


def test_what_came_of_each_is_in_the_order_of_the_entries(race):
    arms = Arms(1.0, 2.0, 1.5, 4.0, 0.5)
    found = arms.race(race)
    assert len(found) == 5
    assert arms.ran == sorted(arms.ran)
    assert arms.ran[0] == 0
    for number, ran in enumerate(found):
        assert (ran is None) == (number not in arms.ran)
        assert ran is None or ran.recording == arms.entries[number].folder


def test_one_that_fails_is_no_obstacle(race):
    found = Arms(None, 1.0, 2.0).race(race)
    assert found[0].ending == "crashed"
    assert found[1].good


def test_alone_it_goes_through(race):
    (only,) = Arms(1.0).race(race)
    assert only.good


def test_in_turn_are_the_number_and_its_neighbours():
    arms = Arms(5.0, 4.0, 3.0, 2.0, 1.0)
    found = arms.race(catalog.module(races.FOLDER, "in_turn").race)
    assert arms.ran == [0, 1, 2]
    assert all(ran.good for ran in found[:3])
    assert found[3:] == [None, None]


def test_halving_ends_what_is_slower_at_its_first_rung():
    pytest.importorskip("optuna")
    arms = Arms(1.0, 3.0, 2.0, 0.5, 0.9)
    found = arms.race(catalog.module(races.FOLDER, "halving").race)
    assert [ran.ending for ran in found] == ["stopped", "outrun", "outrun", "stopped", "outrun"]
    assert arms.rungs[1] == arms.rungs[2] == 1
    assert found[1].rung == Rung(1, 3.0)


def test_halving_goes_by_the_rung_and_not_by_the_start():
    """One begins fast, on what was loaded ahead, and falls back."""
    pytest.importorskip("optuna")
    arms = Arms(1.0, (0.5, 2.0, 2.0))
    found = arms.race(catalog.module(races.FOLDER, "halving").race)
    assert found[1].ending == "outrun"
    assert arms.rungs[1] == 2


def test_what_is_installed_decides_which_is_taken(monkeypatch):
    monkeypatch.setattr(races, "find_spec", lambda name: None)
    assert races.best().__module__.endswith("in_turn")
    monkeypatch.setattr(races, "find_spec", lambda name: name)
    assert races.best().__module__.endswith("halving")
