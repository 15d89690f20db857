"""Signing in and out. A one-time code in an address, or a token, opens a session in a cookie."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from whyidle.cluster.server.access import SESSION_S
from whyidle.cluster.server.answers import render_template
from whyidle.cluster.server.gate import cookie_name
from whyidle.cluster.server.site import RefusedError, Site


def list_routes(site: Site) -> list[Route]:
    """The routes of signing in and out."""

    async def show(request: Request) -> Response:
        # a form, because programs that preview links open them: only a person presses a button
        return render_template(
            "login.html", title="Sign in", code=request.query_params.get("code"), failed=False
        )

    async def enter(request: Request) -> Response:
        given = (await read_form(request)).get("secret", "")
        session = site.access.open_session(given.strip())
        if session is None:
            return render_template("login.html", 401, title="Sign in", code=None, failed=True)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            cookie_name(request),
            session,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def leave(request: Request) -> Response:
        name = cookie_name(request)
        site.access.close_session(request.cookies.get(name, ""))
        answer = RedirectResponse("/login", 303)
        secure = request.url.scheme == "https"
        answer.delete_cookie(name, httponly=True, samesite="strict", secure=secure)
        return answer

    return [
        Route("/login", show),
        Route("/login", enter, methods=["POST"]),
        Route("/logout", leave, methods=["POST"]),
    ]


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a small form.

    Raises:
        RefusedError: it is too large.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > 4096:
            raise RefusedError("The form is too large.", status=413)
    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=20)
    return {name: values[-1] for name, values in fields.items()}
