"""What holds for every page: its document, its form for people, and its description."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest
from fleets import write_fleet
from starlette.testclient import TestClient

from emulator import fake_nvml
from tests.cluster.server.cards import card
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
def whole(store: Store, looked, fleet: Path):
    """A client of a server that has something on every page, and the paths of its pages."""
    site = Site(SiteSettings(stores=[store.root], fleet=fleet))
    site.monitor.machine = looked
    site.monitor._add_to_strips(looked)
    running = store.begin_run(["python", "<script>now()</script>.py"])
    site.index.refresh(force=True)
    client = TestClient(build_app(site), base_url=HERE)
    first = store.list_runs()[0].id

    def path_of(page: Page) -> str:
        return page.path.format(run=running.id if "/jobs" in page.path else first)

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


def test_health(nobody: TestClient):
    assert nobody.get("/healthz").text == "ok\n"


def test_cards_of_the_machine_are_shown(whole):
    client, _ = whole
    page = client.get("/machine").text
    assert "gpu0" in page
    assert "gpu1" in page
    assert 'aria-label="The last hour of gpu1"' in client.get("/").text


def test_a_page_without_its_subject(viewer: TestClient):
    assert viewer.get("/").status_code == 200
    assert viewer.get("/api/machine").status_code == 404
    empty = viewer.get("/fleet")
    assert empty.status_code == 200
    assert "Nothing to show yet" in empty.text
    assert "whyidle serve --fleet" in empty.text
    assert viewer.get("/jobs/20260101-000000-000000").status_code == 404


def test_a_file_that_is_no_fleet(store: Store, tmp_path: Path, fleet: Path):
    path = tmp_path / "fleet.json"
    path.write_text('{"schema": "whyidle/fleet/1"}')
    site = Site(SiteSettings(stores=[store.root], fleet=path))
    client = TestClient(build_app(site), base_url=HERE, raise_server_exceptions=False)
    answer = client.get("/api/fleet")
    assert answer.status_code == 503
    assert "is not a fleet report" in answer.json()["error"]
    path.write_bytes(fleet.read_bytes())
    assert client.get("/api/fleet").json()["job_count"] == 2
    client.close()
    site.close()
