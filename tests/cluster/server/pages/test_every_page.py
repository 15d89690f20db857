"""What holds for every page: its document, its form for people, and its description."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from emulator import fake_nvml
from tests.cluster.server.cards import card
from tests.cluster.server.fleets import write_fleet
from whyidle.cluster.server.site import Page, Site, SiteSettings
from whyidle.cluster.server.web_server import build_app, list_pages
from whyidle.machine.sources import nvml
from whyidle.machine.watch.machine_watch import MachineWatch
from whyidle.store.run_store import Store

PAGES = list_pages()
HERE = "http://127.0.0.1:8470"


@pytest.fixture(scope="module")
def looked():
    """One look at this machine, with two cards beside it."""
    with pytest.MonkeyPatch.context() as patch:
        cards = (card(50), card(0))
        patch.setitem(sys.modules, "pynvml", fake_nvml.module(cards))
        watch = MachineWatch(sources={"nvml": nvml})
        watch.look()
        machine = watch.look()
        watch.close()
    return machine


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fleet(tmp_path_factory.mktemp("fleet") / "fleet.json")


@pytest.fixture
def whole(store: Store, tmp_path: Path, looked, fleet: Path):
    """A client of a server that has something on every page, and the paths of its pages."""
    site = Site(SiteSettings(stores=[store.root], state=tmp_path / "state", fleet=fleet))
    site.monitor.machine = looked
    site.monitor._add_to_strips(looked)
    running = store.begin_run(["python", "<script>now()</script>.py"])
    site.index.refresh(force=True)
    client = TestClient(build_app(site), base_url=HERE)
    client.headers["Authorization"] = f"Bearer {site.access.add_token('a')}"
    first, second = (entry.id for entry in store.list_runs()[:2])

    def path_of(page: Page) -> str:
        path = page.path.format(run=running.id if "/jobs" in page.path else first, user="alice")
        return f"{path}?run={first}&run={second}" if path == "/compare" else path

    yield client, path_of
    client.close()
    site.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_a_page_is_html_and_json(whole, page: Page):
    client, path_of = whole
    path = path_of(page)
    shown = client.get(path)
    assert shown.status_code == 200
    assert "<main" in shown.text
    assert not re.findall(r"<script(?![^>]*(?:src=|application/json))", shown.text)
    assert " onclick=" not in shown.text
    asked = client.get("/api/now" if path == "/" else f"/api{path}")
    assert asked.status_code == 200
    assert asked.headers["content-type"] == "application/json"
    msgspec.json.decode(asked.content, type=page.document)


def test_metrics_and_health(whole):
    client, _ = whole
    assert 'whyidle_stored_runs{state="starved"} 2' in client.get("/metrics").text
    del client.headers["Authorization"]
    assert client.get("/healthz").text == "ok\n"


def test_cards_of_the_machine_are_shown(whole):
    client, _ = whole
    page = client.get("/machine").text
    assert "gpu0" in page
    assert "gpu1" in page
    assert 'aria-label="The last hour of gpu1"' in client.get("/").text


def test_a_page_without_its_subject(nobody: TestClient, site: Site):
    nobody.headers["Authorization"] = f"Bearer {site.access.add_token('v')}"
    assert nobody.get("/").status_code == 200
    assert nobody.get("/api/machine").status_code == 404
    empty = nobody.get("/fleet")
    assert empty.status_code == 200
    assert "Nothing to show yet" in empty.text
    assert "whyidle serve --fleet" in empty.text
    assert nobody.get("/compare?run=20260101-000000-000000").status_code == 400
    assert nobody.get("/jobs/20260101-000000-000000").status_code == 404


def test_a_file_that_is_no_fleet(store: Store, tmp_path: Path, fleet: Path):
    path = tmp_path / "fleet.json"
    path.write_text('{"schema": "whyidle/fleet/1"}')
    site = Site(SiteSettings(stores=[store.root], state=tmp_path / "state", fleet=path))
    client = TestClient(build_app(site), base_url=HERE, raise_server_exceptions=False)
    client.headers["Authorization"] = f"Bearer {site.access.add_token('a')}"
    answer = client.get("/api/fleet")
    assert answer.status_code == 503
    assert "is not a fleet report" in answer.json()["error"]
    path.write_bytes(fleet.read_bytes())
    assert client.get("/api/fleet").json()["job_count"] == 2
    client.close()
    site.close()
