"""What fires goes on after a watch was killed: the same start, and no second notice."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from whyidle.machine.alerts.alert_watch import AlertWatch
from whyidle.machine.alerts.rule_file import AlertSettings
from whyidle.model.documents.watch_document import WatchedHost, WatchedMachine
from whyidle.model.live.alert import Delivery, Rule
from whyidle.model.live.metric_series import Metric

HOST = WatchedHost(
    name="n", cores=1, cores_used=None, memory_bytes=None, memory_used_bytes=None,
    pressure_cpu=None, pressure_io=None, pressure_memory=None,
)  # fmt: skip
MACHINE = WatchedMachine(
    time="2026-11-27T14:02:10+00:00", window_s=1.0, host=HOST, driver=None, gpus=[], absent=None,
    jobs=[], notes=[],
)  # fmt: skip
RULE = Rule(id="held", summary="held", of="gpu", signal="held", above=0.5, window_s=600.0)
LABELS = {"UUID": "u", "hostname": "n", "gpu": "0"}


@pytest.fixture
def clock(monkeypatch):
    """Minutes pass as the test says."""
    now = [1_800_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def watch(folder: Path) -> AlertWatch:
    settings = AlertSettings(rule=[RULE], use=["held"], interval_s=60.0)
    return AlertWatch(settings, folder / "mutes.json", [])


def look(alerts: AlertWatch, clock: list[float], minutes: int, value: float) -> list[Delivery]:
    told = []
    for _ in range(minutes):
        clock[0] += 60.0
        found = alerts.add_look(MACHINE, [Metric("held", "gauge", "", [(LABELS, value)])])
        assert found is not None
        told.append(found)
    return told


def test_a_firing_alert_outlives_its_watch(tmp_path: Path, clock: list[float]):
    first = look(watch(tmp_path), clock, 12, 1.0)
    ((fired,),) = [one.notices for one in first if one.notices]
    again = watch(tmp_path)  # the first one was never closed
    after = look(again, clock, 20, 1.0)
    assert not [one for one in after if one.notices]
    assert {one.firing[0].since for one in after} == {fired.since}
    (resolved,) = [one.notices[0] for one in look(again, clock, 3, 0.0) if one.notices]
    assert (resolved.event, resolved.since) == ("resolves", fired.since)


def test_what_stopped_meanwhile_resolves_once_it_is_measured(tmp_path: Path, clock: list[float]):
    look(watch(tmp_path), clock, 12, 1.0)
    after = look(watch(tmp_path), clock, 12, 0.0)
    assert [bool(one.firing) for one in after] == [True] * 7 + [False] * 5
    assert [n.event for one in after for n in one.notices] == ["resolves"]


def test_an_old_or_broken_state_is_forgotten(tmp_path: Path, clock: list[float]):
    look(watch(tmp_path), clock, 12, 1.0)
    clock[0] += 7200.0
    assert [n.event for one in look(watch(tmp_path), clock, 12, 1.0) for n in one.notices] == [
        "fires"
    ]
    (kept,) = tmp_path.glob("alerts-watch-*.json")
    assert msgspec.json.decode(kept.read_bytes())["active"]
    kept.write_text("{")
    assert [n.event for one in look(watch(tmp_path), clock, 12, 1.0) for n in one.notices] == [
        "fires"
    ]
