"""People whom the team's proxy signs in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.cluster.server.conftest import HERE
from whyidle.cluster.server.proxy_login import ProxyLogin, read_networks
from whyidle.cluster.server.site import Site, SiteSettings
from whyidle.cluster.server.web_server import build_app
from whyidle.errors import UsageError
from whyidle.store.run_store import Store

PROXY = "10.0.0.5"
OWN = {"Origin": HERE}


@pytest.fixture
def site(store: Store, tmp_path: Path) -> Iterator[Site]:
    """A server behind a proxy."""
    proxy = ProxyLogin(networks=read_networks(["10.0.0.0/29"]), has_socket=True)
    site = Site(SiteSettings(stores=[store.root], state=tmp_path / "state", proxy=proxy))
    yield site
    site.close()


@pytest.fixture
def ask(site: Site) -> Callable[..., TestClient]:
    """A client at an address whose requests carry the headers of a proxy."""

    def make(user: str, peer: str = PROXY, **more: str) -> TestClient:
        client = TestClient(
            build_app(site), base_url=HERE, raise_server_exceptions=False, client=(peer, 5000)
        )
        client.headers.update({"X-Forwarded-User": user, **more})
        return client

    return make


def test_whom_the_proxy_names_may_view(ask):
    assert ask("ada").get("/runs").status_code == 200


@pytest.mark.parametrize("peer", ["10.0.0.8", "127.0.0.1", "not-an-address"])
def test_headers_of_others_are_not_believed(ask, peer: str):
    client = ask("ada", peer=peer, **{"X-Forwarded-For": PROXY})
    assert client.get("/runs").status_code == 401


def test_a_socket_has_no_address(ask):
    assert ask("ada", peer="").get("/runs").status_code == 200


def test_a_name_that_comes_twice_is_none(ask):
    client = ask("ada")
    client.headers = [("X-Forwarded-User", "eve"), ("X-Forwarded-User", "ada")]  # type: ignore[assignment]
    assert client.get("/runs").status_code == 401
    assert ask("").get("/runs").status_code == 401


def test_other_sites_cannot_act_for_somebody_whom_the_proxy_knows(ask):
    for head in ({}, {"Origin": "http://evil.example"}):
        assert ask("ada").post("/logout", headers=head).status_code == 403


def test_cookies_are_secure_behind_tls(ask, site: Site):
    for peer, secure in ((PROXY, True), ("10.9.9.9", False)):
        client = ask("", peer=peer, **{"X-Forwarded-Proto": "https"})
        code = site.access.add_code("ada")
        entered = client.post("/login", data={"secret": code}, headers=OWN, follow_redirects=False)
        assert entered.status_code == 303
        assert ("; secure" in entered.headers["set-cookie"].lower()) is secure


def test_an_address_that_is_none():
    with pytest.raises(UsageError, match="--proxy"):
        read_networks(["proxy.example"])
