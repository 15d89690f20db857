"""A server of a small store, asked without a network."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from imagined_jobs import healthy, starved_by_loader
from whyidle.cluster.server.site import Site, SiteSettings
from whyidle.cluster.server.web_server import build_app
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.diagnosis import Diagnosis
from whyidle.store.run_store import Store

HERE = "http://127.0.0.1:8470"
TOKEN = "of-this-server"
BEGIN = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


@pytest.fixture(scope="session")
def diagnoses() -> list[Diagnosis]:
    return [diagnose_job([make().timeline()]) for make in (healthy, starved_by_loader)]


def of_command(diagnosis: Diagnosis, *command: str) -> Diagnosis:
    run = msgspec.structs.replace(diagnosis.run, command=list(command))
    return msgspec.structs.replace(diagnosis, run=run)


@pytest.fixture
def store(tmp_path: Path, diagnoses: list[Diagnosis]) -> Store:
    """Three runs: healthy.py, starved.py and one whose name is markup."""
    store, (well, sick) = Store(tmp_path / "store"), diagnoses
    rows = [(well, "healthy.py"), (sick, "starved.py"), (sick, "<script>alert(1)</script>.py")]
    for number, (diagnosis, script) in enumerate(rows):
        one = of_command(diagnosis, "python", script, "--hub-token", "s3cret")
        store.add_run(one, now=BEGIN + timedelta(hours=number), named=True)
    return store


@pytest.fixture
def site(store: Store) -> Iterator[Site]:
    site = Site(SiteSettings(stores=[store.root], token=TOKEN))
    yield site
    site.close()


@pytest.fixture
def nobody(site: Site) -> Iterator[TestClient]:
    """A client without a credential. The look at the machine is not begun."""
    client = TestClient(build_app(site), base_url=HERE, raise_server_exceptions=False)
    yield client
    client.close()


@pytest.fixture
def viewer(nobody: TestClient) -> TestClient:
    nobody.headers["Authorization"] = f"Bearer {TOKEN}"
    return nobody
