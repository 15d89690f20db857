"""People whom the team's proxy signs in, and which runs they see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.cluster.server.conftest import HERE
from tests.machine.publishers.conftest import make_look
from whyidle.cluster.server.app import build_app
from whyidle.cluster.server.proxy_login import ProxyLogin, read_networks
from whyidle.cluster.server.site import Site, SiteSettings
from whyidle.errors import UsageError
from whyidle.model.diagnosis import Diagnosis
from whyidle.store.entry import META
from whyidle.store.run_store import RUN_ID, Store

PROXY = "10.0.0.5"
OWN = {"Origin": HERE}
IDS = {who: f"20261121-080000-00000{n}" for n, who in enumerate(("owner", "group", "everyone"))}


@pytest.fixture
def site(store: Store, tmp_path: Path, diagnoses: list[Diagnosis]) -> Iterator[Site]:
    """A server behind a proxy, with three runs of ada, who is of the group vision."""
    for visible, run in IDS.items():
        moment = datetime.strptime(run, RUN_ID).replace(tzinfo=timezone.utc)
        entry = store.add_run(diagnoses[0], now=moment, named=True)
        meta = msgspec.structs.replace(
            entry.meta, uploaded_by="ada", visible=visible, groups=["vision"]
        )
        (entry.path / META).write_bytes(msgspec.json.encode(meta))
    proxy = ProxyLogin(
        networks=read_networks(["10.0.0.0/29"]), has_socket=True, admin_groups=["ops"]
    )
    site = Site(
        SiteSettings(stores=[store.root], state=tmp_path / "state", proxy=proxy, visible="owner")
    )
    yield site
    site.close()


@pytest.fixture
def ask(site: Site) -> Callable[..., TestClient]:
    """A client at an address whose requests carry the headers of a proxy."""

    def make(user: str, groups: str = "", peer: str = PROXY, **more: str) -> TestClient:
        client = TestClient(
            build_app(site), base_url=HERE, raise_server_exceptions=False, client=(peer, 5000)
        )
        client.headers.update({"X-Forwarded-User": user, "X-Forwarded-Groups": groups, **more})
        return client

    return make


def listed(client: TestClient) -> set[str]:
    return {run["id"] for run in client.get("/api/runs").json()["runs"]}


@pytest.mark.parametrize(
    ("user", "groups", "seen"),
    [
        ("ada", "", {"owner", "group", "everyone"}),
        ("bob", "vision,x", {"group", "everyone"}),
        ("bob", "x vision", {"group", "everyone"}),
        ("bob", "visionaries, vis", {"everyone"}),
        ("bob", "", {"everyone"}),
    ],
)
def test_who_sees_which_runs(ask, user: str, groups: str, seen: set[str]):
    client = ask(user, groups)
    assert listed(client) == {IDS[one] for one in seen}
    assert sum(client.get("/api/runs").json()["states"].values()) == len(seen)
    for visible, run in IDS.items():
        wanted = 200 if visible in seen else 404
        assert client.get(f"/runs/{run}").status_code == wanted
        assert client.get(f"/jobs/{run}").status_code == wanted
        pair = f"/compare?run={run}&run={IDS['everyone']}"
        assert visible == "everyone" or client.get(pair).status_code == wanted


def test_administrators_see_all(ask, store: Store):
    assert listed(ask("eve", "ops")) == {entry.id for entry in store.list_runs()}


@pytest.mark.parametrize("peer", ["10.0.0.8", "127.0.0.1", "not-an-address"])
def test_headers_of_others_are_not_believed(ask, peer: str):
    client = ask("ada", "ops", peer=peer, **{"X-Forwarded-For": PROXY})
    assert client.get("/runs").status_code == 401


def test_a_socket_has_no_address(ask):
    assert ask("ada", peer="").get("/runs").status_code == 200


def test_a_name_that_comes_twice_is_none(ask):
    client = ask("ada")
    client.headers = [("X-Forwarded-User", "eve"), ("X-Forwarded-User", "ada")]  # type: ignore[assignment]
    assert client.get("/runs").status_code == 401
    assert ask("").get("/runs").status_code == 401


def test_other_sites_cannot_act_for_somebody_whom_the_proxy_knows(ask):
    form = {"visible": "everyone"}
    for head in ({}, {"Origin": "http://evil.example"}):
        answer = ask("ada").post(f"/runs/{IDS['owner']}", data=form, headers=head)
        assert answer.status_code == 403


def test_owners_and_administrators_say_who_sees_a_run(ask, store: Store):
    def change(client: TestClient, run: str, visible: str) -> int:
        answer = client.post(
            f"/runs/{run}", data={"visible": visible}, headers=OWN, follow_redirects=False
        )
        return answer.status_code

    assert change(ask("bob", "vision"), IDS["owner"], "everyone") == 404
    assert change(ask("bob", "vision"), IDS["group"], "everyone") == 403
    assert change(ask("ada"), IDS["owner"], "nobody") == 400
    assert "Who may see it" in ask("ada").get(f"/runs/{IDS['owner']}").text
    assert "Who may see it" not in ask("bob", "vision").get(f"/runs/{IDS['group']}").text
    assert change(ask("ada"), IDS["owner"], "group") == 303
    assert IDS["owner"] in listed(ask("bob", "vision"))
    assert change(ask("eve", "ops"), IDS["owner"], "owner") == 303
    assert listed(ask("bob", "vision")) == {IDS["group"], IDS["everyone"]}


def test_cookies_are_secure_behind_tls(ask, site: Site):
    for peer, secure in ((PROXY, True), ("10.9.9.9", False)):
        client = ask("", peer=peer, **{"X-Forwarded-Proto": "https"})
        code = site.access.add_code("ada", "viewer")
        entered = client.post("/login", data={"secret": code}, headers=OWN, follow_redirects=False)
        assert entered.status_code == 303
        assert ("; secure" in entered.headers["set-cookie"].lower()) is secure


def test_an_address_that_is_none():
    with pytest.raises(UsageError, match="--proxy"):
        read_networks(["proxy.example"])


def test_command_lines_of_others_are_not_shown(ask, site: Site):
    site.monitor.machine = make_look()
    for path, key in (("/api/machine", None), ("/api/now", "machine")):
        for user, groups, shown in (("alice", "", True), ("eve", "ops", True), ("bob", "", False)):
            document = ask(user, groups).get(path).json()
            (job,) = (document[key] if key else document)["jobs"]
            assert (job["command"] is not None) is shown
            assert (job["reason"] is not None) is shown
    assert "train.py" not in ask("bob").get("/machine").text
