"""Trackers that a job opens are reported, by modules that stand in for theirs."""

import json
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest
import standin

from whyidle.machine.publishers import mlflow
from whyidle.probe.core.events import Events
from whyidle.probe.core.recorder import Recorder
from whyidle.probe.core.tracker_report import VARIABLE, WRITERS, install_tracker_report

TRACKED = {"mlflow": mlflow.TRACKED}


@pytest.fixture
def events(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, json.dumps(TRACKED))
    for name in ("mlflow", *WRITERS):
        monkeypatch.delitem(sys.modules, name, raising=False)
    made = Events(Recorder(str(tmp_path)), standin.Framework())
    install_tracker_report(made)
    yield made
    for undo in list(made.undo.values()):
        undo()


def put(monkeypatch, name, **members):
    module = ModuleType(name)
    module.__dict__.update(members)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def look(events):
    events.notify("on_look")


def reported(tmp_path):
    path = tmp_path / f"{os.getpid()}.trackers.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_nothing_is_reported_without_a_tracker(events, tmp_path):
    look(events)
    assert reported(tmp_path) is None


def test_an_active_run_is_reported_once_it_is_open(events, tmp_path, monkeypatch):
    run = SimpleNamespace(info=SimpleNamespace(run_id="r1"))
    runs = iter([None, run, run])
    put(
        monkeypatch, "mlflow",
        active_run=lambda: next(runs), get_tracking_uri=lambda: "file:mlruns",
    )  # fmt: skip
    look(events)
    assert reported(tmp_path) is None
    look(events)
    assert reported(tmp_path) == {"mlflow": {"run_id": "r1", "tracking_uri": "file:mlruns"}}


def test_the_folder_of_tensorboard_s_first_writer(tmp_path, monkeypatch):
    class EventFileWriter:
        def __init__(self, logdir, max_queue=10):
            self.made = (logdir, max_queue)

    original = EventFileWriter.__init__
    put(monkeypatch, WRITERS[0], EventFileWriter=EventFileWriter)
    monkeypatch.setenv(VARIABLE, json.dumps(TRACKED))
    events = Events(Recorder(str(tmp_path)), standin.Framework())
    install_tracker_report(events)
    assert EventFileWriter(str(tmp_path / "runs"), max_queue=3).made == (str(tmp_path / "runs"), 3)
    EventFileWriter(str(tmp_path / "others"))
    look(events)
    assert reported(tmp_path) == {"tensorboard": {"log_dir": str(tmp_path / "runs")}}
    for undo in list(events.undo.values()):
        undo()
    assert EventFileWriter.__init__ is original


def test_it_is_off_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    events = Events(Recorder(str(tmp_path)), standin.Framework())
    install_tracker_report(events)
    assert "trackers" not in events.undo
