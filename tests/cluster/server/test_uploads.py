"""Runs of other machines."""

from __future__ import annotations

import gzip
import json
import os
import subprocess

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.cluster.server.conftest import of_command
from whyidle.cluster.server import uploads
from whyidle.cluster.server.site import Site
from whyidle.model.diagnosis import Diagnosis
from whyidle.store.run_store import Store

ID = "20261121-080000-000001"
PATH = f"/api/runs/{ID}"


@pytest.fixture
def body(diagnoses: list[Diagnosis]) -> bytes:
    return msgspec.json.encode(of_command(diagnoses[1], "python", "far.py", "--api-key", "s3cret"))


def test_a_run_is_stored_and_sent_again(uploader: TestClient, store: Store, body: bytes):
    assert uploader.put(PATH, content=body).status_code == 201
    assert uploader.put(PATH, content=body).status_code == 200
    entry = store.find_run(ID)
    assert entry.meta is not None
    assert entry.meta.uploaded_by == "uploader"
    assert store.read_diagnosis(entry).run.command == ["python", "far.py", "--api-key", "***"]
    assert "s3cret" not in (entry.path / "diagnosis.json").read_text()
    assert not [path for path in store.folder.iterdir() if path.name[0] == "."]


def test_another_run_of_the_same_id_is_refused(
    uploader: TestClient, store: Store, body: bytes, diagnoses: list[Diagnosis]
):
    assert uploader.put(PATH, content=body).status_code == 201
    other = msgspec.json.encode(diagnoses[0])
    answer = uploader.put(PATH, content=other)
    assert answer.status_code == 409
    assert ID in answer.json()["error"]
    assert store.read_diagnosis(store.find_run(ID)).verdict.state == "starved"


def test_a_compressed_run(uploader: TestClient, body: bytes):
    head = {"Content-Encoding": "gzip"}
    assert uploader.put(PATH, content=gzip.compress(body), headers=head).status_code == 201
    cut = uploader.put(PATH[:-1] + "2", content=gzip.compress(body)[:-9], headers=head)
    assert cut.status_code == 400


def test_bombs_are_refused(uploader: TestClient, store: Store):
    bomb = gzip.compress(b"[" * (uploads.MOST_BYTES + 1))
    assert len(bomb) < 100_000
    head = {"Content-Encoding": "gzip"}
    assert uploader.put(PATH, content=bomb, headers=head).status_code == 413
    assert uploader.put(PATH, content=b" " * (uploads.MOST_BYTES + 1)).status_code == 413
    assert uploader.put(PATH, content=b"[" * 1_000_000).status_code == 422
    assert len(store.list_runs()) == 3


@pytest.mark.parametrize(
    "name", ["x", "..", "20269999-080000-000001", "20261121-080000-00000", "%2e%2e%2fx"]
)
def test_an_id_is_a_time(uploader: TestClient, name: str, body: bytes):
    assert uploader.put(f"/api/runs/{name}", content=body).status_code in (400, 403, 404, 405)


def test_unknown_store_and_encoding(uploader: TestClient, body: bytes):
    assert uploader.put(f"{PATH}?store=x", content=body).status_code == 400
    head = {"Content-Encoding": "br"}
    assert uploader.put(PATH, content=body, headers=head).status_code == 415


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_uploads_are_refused_in_words(
    data: st.DataObject, uploader: TestClient, body: bytes
):
    """A byte changed, the end cut off, or a value of another type: the server never fails."""
    kind = data.draw(st.sampled_from(["byte", "cut", "value"]))
    at = data.draw(st.integers(0, len(body) - 1))
    if kind == "byte":
        damaged = body[:at] + bytes([data.draw(st.integers(0, 255))]) + body[at + 1 :]
    elif kind == "cut":
        damaged = body[:at]
    else:
        document = json.loads(body)
        document[data.draw(st.sampled_from(sorted(document)))] = data.draw(
            st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers(), max_size=3))
        )
        damaged = json.dumps(document).encode()
    answer = uploader.put("/api/runs/20261122-080000-000001", content=damaged)
    assert answer.status_code in (200, 201, 409, 422)
    if answer.status_code >= 400:
        assert answer.json()["error"]


def test_an_upload_is_listed_at_once(uploader: TestClient, site: Site, body: bytes):
    assert uploader.put(PATH, content=body).status_code == 201
    token = site.access.add_token("reader", "viewer")
    head = {"Authorization": f"Bearer {token}"}
    listed = uploader.get("/api/runs?q=far.py", headers=head).json()
    assert [run["user"] for run in listed["runs"]] == ["uploader"]


def test_a_full_disk_is_said_and_leaves_nothing(site: Site, uploader: TestClient, body: bytes):
    store = next(iter(site.stores.values()))
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", store.folder]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only")
    try:
        answer = uploader.put(PATH, content=body)
        assert answer.status_code == 507
        assert "No space left" in answer.json()["error"]
        assert not [*store.folder.iterdir()]
    finally:
        subprocess.run(["umount", store.folder], check=True)
