"""Makes answers: pages from templates, documents as JSON, refusals in either form."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from whyidle.cluster.server.site import Page, Question
from whyidle.reports import _number_format as words
from whyidle.reports._html.sections import draw_attribution
from whyidle.reports._palette import LEVELS, LOOKS
from whyidle.reports._verdict_page import STATES
from whyidle.version import __version__

NAVIGATION: Final = (
    ("now", "Now", "/"),
    ("runs", "Runs", "/runs"),
    ("machine", "Machine", "/machine"),
    ("fleet", "Fleet", "/fleet"),
)
TITLES: Final = {
    200: "Nothing to show yet",
    400: "This cannot be answered",
    401: "Sign in",
    403: "Not allowed",
    404: "Not found",
}


def answer_json(document: Any, status: int = 200) -> Response:
    """A document as JSON."""
    return Response(msgspec.json.encode(document), status, media_type="application/json")


def render_page(page: Page, question: Question, document: Any) -> str:
    """A whole page."""
    context = {"page": page, "question": question, "document": document}
    return _template(page.template).render({**context, **page.view(question, document)})


def refuse(scope: Scope, status: int, text: str, hint: str = "") -> Response:
    """A refusal, as JSON below ``/api``, else as a page."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if scope["path"].startswith("/api/"):
        body = {"error": text, "hint": hint or None}
        return Response(msgspec.json.encode(body), status, headers, "application/json")
    title = TITLES.get(status, "The request failed")
    name = "login.html" if status == 401 else "refusal.html"
    shown = _template(name).render(page=None, title=title, text=text, hint=hint)
    return HTMLResponse(shown, status, headers)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("whyidle.cluster.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "navigation": NAVIGATION,
        "version": __version__,
        "looks": LOOKS,
        "states": STATES,
        "draw_shares": draw_attribution,
        "heat_levels": LEVELS,
    }
    environment.filters |= {
        "seconds": words.format_seconds,
        "age": lambda seconds: "" if seconds is None else words.format_age(seconds),
        "percent": words.format_percent,
        "bytes": words.format_bytes,
        "digits": words.format_digits,
        "factor": words.format_factor,
        "place": words.format_place,
        "local": format_moment,
        "replace_by": lambda name, names: names.get(name, name),
    }
    return environment


def _template(name: str) -> Template:
    return _environment().get_template(name)


def format_moment(text: str) -> str:
    """A stored time, ISO 8601, as local date and time."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text[:16]
