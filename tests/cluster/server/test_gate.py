"""Host names, origins, the token and the headers of answers."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.cluster.server.conftest import HERE, TOKEN
from whyidle.cluster.server.site import Site, SiteSettings
from whyidle.cluster.server.web_server import build_app
from whyidle.store.run_store import Store

PAGES = ("/", "/runs", "/api/runs", "/api/openapi.json")


@pytest.mark.parametrize("path", PAGES)
def test_without_a_token_nothing_is_shown(nobody: TestClient, path: str):
    answer = nobody.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "starved.py" not in answer.text


@pytest.mark.parametrize("secret", ["", "x", "\udcff", "a" * 5000])
def test_a_wrong_token_is_none(nobody: TestClient, secret: str):
    header = f"Bearer {secret}".encode("utf-8", "surrogateescape")
    assert nobody.get("/runs", headers={b"Authorization": header}).status_code == 401


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_nothing_can_be_changed(viewer: TestClient, method: str):
    assert viewer.get("/runs").status_code == 200
    assert viewer.request(method, "/api/runs/x").status_code == 405


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8470", 200),
        ("[::1]:8470", 200),
        ("localhost", 200),
        ("10.1.2.3:8470", 200),  # an address cannot be rebound
        ("evil.example:8470", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost.evil.example", 400),
        ("[::1", 400),
        ("", 400),
    ],
)
def test_only_own_names_are_answered(viewer: TestClient, host: str, status: int):
    assert viewer.get("/runs", headers={"Host": host}).status_code == status


def test_the_address_with_the_token_signs_a_browser_in(nobody: TestClient):
    assert nobody.get("/runs?token=wrong").status_code == 401
    entered = nobody.get(f"/runs?q=a&token={TOKEN}", follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, f"{HERE}/runs?q=a")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    assert TOKEN not in cookie
    assert nobody.get("/runs").status_code == 200


def test_cookies_are_secure_behind_tls(nobody: TestClient):
    headers = {"X-Forwarded-Proto": "https"}
    entered = nobody.get(f"/?token={TOKEN}", headers=headers, follow_redirects=False)
    assert "; secure" in entered.headers["set-cookie"].lower()
    assert entered.headers["location"].startswith("https://127.0.0.1")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_pages_of_other_sites_read_nothing(viewer: TestClient, origin: str):
    assert viewer.get("/runs", headers={"Origin": origin}).status_code == 403
    assert viewer.get("/runs", headers={"Origin": HERE}).status_code == 200


def test_without_a_token_of_the_server_anyone_may_view(store: Store):
    site = Site(SiteSettings(stores=[store.root]))
    client = TestClient(build_app(site), base_url=HERE)
    assert client.get("/runs").status_code == 200
    assert client.get("/runs", headers={"Host": "evil.example"}).status_code == 400
    client.close()
    site.close()


def test_every_answer_has_a_strict_policy(viewer: TestClient, nobody: TestClient):
    for path in ("/runs", "/api/runs", "/runs/nothing", "/static/site.js"):
        answer = viewer.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "script-src" not in policy  # nothing beyond default-src
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/static/../access.py", "/static/%2e%2e/app.py", "/static/"])
def test_static_files_are_those_of_the_folder(nobody: TestClient, path: str):
    assert nobody.get(path).status_code in (404, 401)
