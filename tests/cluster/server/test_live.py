"""Jobs while they run: their status by their files, and the stream that ends with them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from whyidle.cluster.server import event_streams
from whyidle.cluster.server.event_streams import MainCache, _send_events
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


def test_a_stream_follows_a_job_and_ends_with_it(
    running: Entry,
    site: Site,
    store: Store,
    diagnoses: list[Diagnosis],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(event_streams, "EVERY_S", 0.05)
    monkeypatch.setattr(event_streams, "KEEP_S", 0.0)
    question = Question(site=site, path={"run": running.id})

    async def follow() -> list[tuple[str, str]]:
        seen = []
        async for text in _send_events(site, job.PAGE, MainCache(), question):
            kind, _, data = text.strip().partition("\n")
            if not kind.startswith(":"):
                seen.append((kind.removeprefix("event: "), data.removeprefix("data: ")))
            if len(seen) == 1:
                end_command(running)
            elif len(seen) == 2:
                store.complete_run(running, diagnoses[0])
        return seen

    seen = asyncio.run(asyncio.wait_for(follow(), 20))
    assert [kind for kind, _ in seen] == ["main", "main", "main", "over"]
    first, second, third = (json.loads(data) for _, data in seen[:3])
    assert 'id="status">running' in first
    assert "being diagnosed" in second
    assert f'href="/runs/{running.id}"' in third


def test_a_stream_ends_with_its_session(
    running: Entry, site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(event_streams, "EVERY_S", 0.01)
    viewer = site.access.identify(site.access.add_token("ada", "viewer"), "token")
    question = Question(site=site, path={"run": running.id}, viewer=viewer)

    async def follow() -> int:
        count = 0
        async for _ in _send_events(site, job.PAGE, MainCache(), question):
            count += 1
            site.access.revoke("ada")
        return count

    assert asyncio.run(asyncio.wait_for(follow(), 20)) == 1


def test_the_stream_of_a_run_that_has_ended(viewer: TestClient, store: Store):
    run = store.find_run("last").id
    answer = viewer.get(f"/api/jobs/{run}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("event: over\ndata: 1\n\n")
    assert viewer.get("/api/jobs/20260101-000000-000000/events").status_code == 404


def test_what_several_see_is_made_once(running: Entry, site: Site):
    cache, question = MainCache(), Question(site=site, path={"run": running.id})
    first, _ = cache.render(job.PAGE, question)
    end_command(running)
    assert cache.render(job.PAGE, question)[0] == first


def test_step_times_are_drawn():
    picture = job.draw_trend([0.1, 0.2, 0.15])
    assert picture is not None
    assert picture.count("<poly") == 2
    assert job.draw_trend([0.1]) is None


def test_a_run_elsewhere_has_no_news_yet(running: Entry, site: Site, tmp_path: Path):
    del tmp_path
    document = job.PAGE.read(Question(site=site, path={"run": running.id}))
    assert (document.status, document.report, document.trend_s) == ("running", None, [])
