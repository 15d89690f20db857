"""Host names, origins, credentials and the headers of answers."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from whyidle.cluster.server.site import Site

PAGES = ("/", "/runs", "/api/runs", "/api/openapi.json", "/metrics")


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


def test_a_session_changes_nothing_for_other_sites(nobody: TestClient, site: Site):
    code = site.access.add_code("ada")
    own = {"Origin": "http://127.0.0.1:8470"}
    entered = nobody.post("/login", data={"secret": code}, headers=own, follow_redirects=False)
    assert entered.status_code == 303
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert nobody.get("/runs").status_code == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        assert nobody.post("/logout", headers={"Origin": origin}).status_code == 403
    assert nobody.post("/logout").status_code == 403  # a browser always names the origin
    assert nobody.post("/logout", headers=own, follow_redirects=False).status_code == 303
    assert nobody.get("/runs").status_code == 401


def test_another_site_cannot_sign_a_browser_in(nobody: TestClient, site: Site):
    code = site.access.add_code("ada")
    foreign = {"Origin": "http://evil.example"}
    assert nobody.post("/login", data={"secret": code}, headers=foreign).status_code == 403


def test_every_answer_has_a_strict_policy(viewer: TestClient, nobody: TestClient):
    for path in ("/runs", "/api/runs", "/runs/nothing", "/static/site.js", "/login"):
        answer = viewer.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "script-src" not in policy  # nothing beyond default-src
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/static/../access.json", "/static/%2e%2e/app.py", "/static/"])
def test_static_files_are_those_of_the_folder(nobody: TestClient, path: str):
    assert nobody.get(path).status_code in (404, 401)


def test_a_form_that_is_too_large_is_refused(nobody: TestClient):
    assert nobody.post("/login", data={"secret": "x" * 5000}).status_code == 413
