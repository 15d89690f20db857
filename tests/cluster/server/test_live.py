"""Jobs while they run: their status by their files, and pages that follow them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from whyidle.cluster.server.live_jobs import SILENT_S, status_of
from whyidle.cluster.server.pages import job
from whyidle.cluster.server.site import Question, Site
from whyidle.model.diagnosis import Diagnosis
from whyidle.record.launcher import CommandEnd
from whyidle.record.recording_diagnosis import TELEMETRY, note_end
from whyidle.store.entry import RECORDING, Entry, entry_of
from whyidle.store.run_store import Store


@pytest.fixture
def running(store: Store) -> Entry:
    entry = store.begin_run(["python", "train.py"])
    note_end(entry.path / RECORDING, entry.id, ["python", "train.py"], None)
    (entry.path / RECORDING / TELEMETRY).write_bytes(b"")
    return entry


def end_command(entry: Entry) -> None:
    end = CommandEnd(status=0, started="2026-11-20T12:00:00+00:00", duration_s=1.0)
    note_end(entry.path / RECORDING, entry.id, ["python", "train.py"], end)


def test_a_run_is_running_until_its_command_ends(
    running: Entry, store: Store, diagnoses: list[Diagnosis]
):
    assert status_of(running) == "running"
    end_command(running)
    assert status_of(running) == "ending"
    store.complete_run(running, diagnoses[0])
    assert status_of(entry_of(running.path)) == "ended"


def test_a_launcher_that_was_killed_is_lost(running: Entry):
    before = time.time() - SILENT_S - 1
    os.utime(running.path / RECORDING / TELEMETRY, (before, before))
    assert status_of(running) == "lost"


def test_a_page_asks_again_until_its_job_has_ended(
    running: Entry, viewer: TestClient, store: Store, diagnoses: list[Diagnosis]
):
    first = viewer.get(f"/jobs/{running.id}").text
    assert 'id="status">running' in first
    assert 'id="main" data-live' in first
    end_command(running)
    assert "being diagnosed" in viewer.get(f"/jobs/{running.id}").text
    store.complete_run(running, diagnoses[0])
    last = viewer.get(f"/jobs/{running.id}").text
    assert f'href="/runs/{running.id}"' in last
    assert "data-live" not in last


def test_a_run_elsewhere_has_no_news_yet(running: Entry, site: Site, tmp_path: Path):
    del tmp_path
    document = job.PAGE.read(Question(site=site, path={"run": running.id}))
    assert (document.status, document.report) == ("running", None)
