"""The list of runs, and the report of one."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from whyidle.store.run_store import Store


def test_markup_in_a_name_is_text(viewer: TestClient, store: Store):
    for path in ("/runs", f"/runs/{store.find_run('last').id}"):
        page = viewer.get(path).text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<script>alert" not in page


def test_no_script_stands_in_a_page(viewer: TestClient, store: Store):
    """The content policy would block it; data are no script."""
    for path in ("/runs", f"/runs/{store.find_run('last').id}"):
        for opening, inside in re.findall(
            r"<script([^>]*)>(.*?)</script>", viewer.get(path).text, re.DOTALL
        ):
            assert "src=" in opening or 'type="application/json"' in opening
            assert not ("src=" in opening and inside)


def test_no_secret_is_shown(viewer: TestClient, store: Store):
    run = store.find_run("last").id
    for path in ("/runs", "/api/runs", f"/runs/{run}", f"/api/runs/{run}"):
        text = viewer.get(path).text
        assert "***" in text
        assert "s3cret" not in text


def test_a_search(viewer: TestClient):
    listed = viewer.get("/api/runs", params={"q": "healthy", "state": "saturated"}).json()
    assert [run["command"] for run in listed["runs"]] == ["python healthy.py --hub-token '***'"]
    page = viewer.get("/runs", params={"q": '"><script>'}).text
    assert "No run is of that kind" in page
    assert '"><script>' not in page


def test_pages_of_a_long_list(viewer: TestClient, store: Store):
    for _ in range(60):
        store.begin_run(["python", "many.py"])
    viewer.app.state.site.index.refresh(force=True)  # type: ignore[attr-defined]
    listed = viewer.get("/api/runs?page=2&q=many.py").json()
    assert (listed["total"], listed["pages"], len(listed["runs"])) == (60, 2, 10)
    assert "q=many.py&amp;page=1" in viewer.get("/runs?page=2&q=many.py").text
    for odd in ("0", "-1", "x", "9" * 30):
        assert viewer.get(f"/runs?page={odd}&days={odd}").status_code == 200


def test_the_report(viewer: TestClient, store: Store):
    run = store.find_run("last~1").id
    assert "The DataLoader has no workers" in viewer.get(f"/runs/{run}").text
    assert viewer.get(f"/api/runs/{run}").json()["verdict"]["cause"] == "dataloader-no-workers"


@pytest.mark.parametrize("name", ["last", "20260101-000000-000000", "%2e%2e%2fserve", "x" * 999])
def test_an_unknown_run(viewer: TestClient, name: str):
    assert viewer.get(f"/runs/{name}").status_code == 404
    assert viewer.get(f"/api/runs/{name}").status_code in (404, 405)


def test_a_run_that_cannot_be_read_says_why(viewer: TestClient, store: Store):
    entry = store.find_run("last")
    (entry.path / "diagnosis.json").write_text("{")
    answer = viewer.get(f"/api/runs/{entry.id}")
    assert answer.status_code == 503
    assert "is not a diagnosis" in answer.json()["error"]
