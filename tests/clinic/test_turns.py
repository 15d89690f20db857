"""What runs beside what, how it is stopped, and how long all of it took."""

import msgspec
import pytest

import clinic.runs
from clinic import examine
from clinic.times import Times
from clinic.turns import turns

pytestmark = pytest.mark.real_processes("jobs wait for each other in processes of their own")


def several(case, count, first=100, **more):
    return [msgspec.structs.replace(case, id=f"c{first + i:04}", **more) for i in range(count)]


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
