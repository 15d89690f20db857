"""The look at the machine while the server runs, its alerts and their mutes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from emulator import fake_nvml
from tests.cluster.server.cards import card
from whyidle.cluster.server import machine_monitor
from whyidle.cluster.server.machine_monitor import MachineMonitor
from whyidle.cluster.server.site import Site
from whyidle.machine.alerts.rule_file import AlertSettings
from whyidle.model.live.alert import Notice, Rule

FREE = Rule(
    id="free-card", summary="nobody uses it", of="gpu", signal="whyidle_gpu_state",
    labels={"state": "free"}, above=0.5, window_s=0.1, coverage=0.1,
)  # fmt: skip


def test_it_looks_and_tells_what_fires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module((card(0),)))
    monkeypatch.setattr(machine_monitor, "EVERY_S", 0.1)
    settings = AlertSettings(rule=[FREE], interval_s=1.0)
    history = tmp_path / "alerts.jsonl"
    monitor = MachineMonitor(settings, tmp_path / "mutes.json", history)
    monitor.start()
    until = time.monotonic() + 20
    while not monitor.firing and time.monotonic() < until:
        time.sleep(0.05)
    monitor.close()
    assert [line.rule for line in monitor.firing] == ["free-card"]
    assert monitor.machine is not None
    assert [strip.name for strip in monitor.strips()] == ["gpu0", "CPU"]
    assert monitor.strips()[0].minutes[-1].state == "free"
    history.write_bytes(history.read_bytes() + b'{"cut')
    again = MachineMonitor(settings, tmp_path / "mutes.json", history)
    assert [(line.event, line.rule) for line in again.history()] == [("fires", "free-card")]


def test_what_resolves_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monitor = MachineMonitor(AlertSettings(), tmp_path / "mutes.json", tmp_path / "h.jsonl")
    notice = Notice(
        key="k", rule=FREE, event="fires", labels={"gpu": "0"}, value=1.0, since=1.0, when=2.0
    )
    monitor._note_firing([notice])
    monitor._note_firing([notice])
    monitor._note_firing([])
    assert [line.event for line in monitor.history()] == ["resolves", "fires"]
    assert monitor.firing == []


def test_an_admin_mutes_and_ends_a_mute(admin: TestClient, site: Site):
    answer = admin.post("/api/mutes", data={"name": "idle-held", "hours": "2"})
    assert answer.status_code == 200
    assert answer.json()["idle-held"] == pytest.approx(time.time() + 7200, abs=60)
    assert "End the mute" in admin.get("/alerts").text
    assert admin.post("/api/mutes", data={"name": "idle-held"}).json() == {}
    assert admin.post("/alerts/mutes", data={"name": "stalled", "hours": "1"}).status_code == 200
    assert list(site.monitor.mutes()) == ["stalled"]


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"name": "nothing"}, 404),
        ({"name": "stalled", "hours": "-1"}, 400),
        ({"name": "stalled", "hours": "nan"}, 400),
        ({"name": "stalled", "hours": "many"}, 400),
        ({"name": "x" * 5000}, 413),
    ],
)
def test_mutes_that_are_refused(admin: TestClient, form: dict[str, str], status: int):
    assert admin.post("/api/mutes", data=form).status_code == status


def test_a_viewer_mutes_nothing(viewer: TestClient, site: Site):
    assert viewer.post("/api/mutes", data={"name": "stalled", "hours": "1"}).status_code == 403
    assert "<button>Mute" not in viewer.get("/alerts").text
    assert site.monitor.mutes() == {}
