"""Looks reach publishers, and a destination that is away is told once and harms nobody."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import pytest
from watched_machines import machine

from whyidle.errors import WhyidleError
from whyidle.machine.publishers import wandb
from whyidle.machine.watch.publisher_queue import QUEUED, PublisherThread, Publishing
from whyidle.machine.watch.run_publishing import TRACK, RunPublishing, find_trackers
from whyidle.model.live.publisher import Destination

LOOK = machine([], [])


class Slow:
    def __init__(self):
        self.seen, self.closed, self.gate = [], False, threading.Event()

    def publish(self, machine, metrics):
        self.gate.wait(5)
        self.seen.append(machine)

    def close(self, diagnosis):
        self.closed = True


class Away(Slow):
    def publish(self, machine, metrics):
        self.seen.append(machine)
        raise ConnectionRefusedError(111, "Connection refused")


def test_a_slow_destination_loses_the_oldest_looks_only():
    slow = Slow()
    thread = PublisherThread("slow", slow, (OSError,), pytest.fail)
    began = time.monotonic()
    for _ in range(200):
        thread.enqueue(LOOK, [])
    assert time.monotonic() - began < 1.0
    slow.gate.set()
    thread.close(None)
    assert 1 <= len(slow.seen) <= QUEUED + 1
    assert slow.closed


def test_a_failing_destination_is_told_once_and_tried_again():
    told, away = [], Away()
    thread = PublisherThread("away", away, (OSError,), told.append)
    for n in range(3):
        thread.enqueue(LOOK, [])
        until = time.monotonic() + 5
        while len(away.seen) <= n and time.monotonic() < until:
            time.sleep(0.005)
    thread.close(None)
    assert len(away.seen) == 3
    assert told == ["away: not published: ConnectionRefusedError: [Errno 111] Connection refused"]


def test_what_may_not_be_lost_is_tried_again_in_order():
    told, seen, down = [], [], threading.Event()
    down.set()

    class Hook(Slow):
        def publish(self, notice):
            if down.is_set():
                raise ConnectionRefusedError(111, "Connection refused")
            seen.append(notice)

    thread = PublisherThread("hook", Hook(), (OSError,), told.append, retry_s=0.05)
    for n in range(3):
        thread.enqueue(n)
    until = time.monotonic() + 5
    while not told and time.monotonic() < until:
        time.sleep(0.005)
    down.clear()
    while len(seen) < 3 and time.monotonic() < until:
        time.sleep(0.005)
    thread.close(None)
    assert seen == [0, 1, 2]
    assert [text.partition(":")[2].split(":")[0].strip() for text in told] == [
        "not published",
        "published again",
    ]


def test_an_extra_that_is_missing_is_named(monkeypatch):
    facts = {"log_dir": "runs", "run_id": "1", "tracking_uri": "file:x", "key": "k"}
    packages = {"mlflow": "mlflow", "tensorboard": "tensorboard"}
    monkeypatch.setattr(sys, "modules", {**sys.modules, **dict.fromkeys(packages.values())})
    for name in packages:
        with pytest.raises(WhyidleError, match=rf"whyidle\[{name}\]"):
            Publishing(pytest.fail).open(name, Destination(tracker=facts))


def test_trackers_that_a_job_reported(tmp_path: Path):
    (tmp_path / "7.trackers.json").write_text(json.dumps({"mlflow": {"run_id": "1"}}))
    (tmp_path / "8.trackers.json").write_text("{")
    assert find_trackers(tmp_path) == {"mlflow": {"run_id": "1"}}


def test_a_tracker_of_another_package_is_asked_for_in_the_job(tmp_path: Path, monkeypatch):
    (tmp_path / "diary.py").write_text(
        "FAULTS = ()\nTRACKED = {'page': 'diary.open_page().number'}\ndef open(destination): ...\n"
    )
    installed = tmp_path / "diary-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: diary\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[whyidle.publishers]\ndiary = diary\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    publishing = RunPublishing(tmp_path, pytest.fail, None, pytest.fail, track=True)
    try:
        tracked = json.loads(publishing.variables()[TRACK])
    finally:
        publishing.finish(None)
    assert tracked["diary"] == {"page": "diary.open_page().number"}
    assert tracked["mlflow"]["run_id"] == "mlflow.active_run().info.run_id"
    assert tracked["prometheus"] == {}


def test_weights_and_biases_is_told_of_a_page_of_few_series():
    page = wandb.open(Destination())
    variables = page.environment({wandb.VARIABLE: '{"dcgm": "http://x"}'})
    known = json.loads(variables[wandb.VARIABLE])
    assert known == {"dcgm": "http://x", "whyidle": f"http://127.0.0.1:{page.port}/metrics"}
    assert page.environment({wandb.VARIABLE: "not json"}) == {}
    page.publish(LOOK, [])
    assert page._text.count(b"whyidle_step_share_ratio{") == 8
    page.close(None)
