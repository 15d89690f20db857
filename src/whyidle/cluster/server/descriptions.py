"""Describes the interface for programs: OpenAPI, made from the pages, and a page that lists it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from whyidle.cluster.server.answers import answer_json, render_template
from whyidle.cluster.server.site import Page
from whyidle.model.diagnosis import Diagnosis
from whyidle.version import __version__

REF: Final = "#/components/schemas/{name}"
ERRORS: Final = {
    "401": {"description": "No valid token."},
    "403": {"description": "The role may not do this, or the origin is another site."},
    "404": {"description": "Not found."},
}


def list_routes(pages: Sequence[Page]) -> list[Route]:
    """The routes of the description."""

    def answer_openapi(_: Request) -> Response:
        return answer_json(describe_interface(pages))

    def show_list(request: Request) -> Response:
        viewer = request.state.viewer
        return render_template("api.html", title="Interface", viewer=viewer, pages=pages)

    return [Route("/api/openapi.json", answer_openapi), Route("/api", show_list)]


def describe_interface(pages: Sequence[Page]) -> dict[str, Any]:
    """The OpenAPI document."""
    types = [page.document for page in pages]
    schemas, components = msgspec.json.schema_components(
        dict.fromkeys([*types, Diagnosis]), ref_template=REF
    )
    by_type = dict(zip(dict.fromkeys([*types, Diagnosis]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for page in pages:
        paths[page.api_path] = {"get": _describe_page(page, by_type[page.document])}
    paths.setdefault("/api/runs/{run}", {})["put"] = _describe_upload(by_type[Diagnosis])
    paths["/api/mutes"] = {"post": _describe_mute()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "whyidle", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _describe_page(page: Page, schema: Any) -> dict[str, Any]:
    query = [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in page.parameters.items()
    ]
    return {
        "summary": page.summary,
        "parameters": [*_path_parameters(page.path), *query],
        "responses": {"200": _json_content(page.summary, schema), **ERRORS},
    }


def _describe_upload(schema: Any) -> dict[str, Any]:
    stored = {"description": "The run is stored."}
    return {
        "summary": "Store a run of another machine. Role uploader or admin.",
        "parameters": _path_parameters("{run}"),
        "requestBody": {"required": True, **_json_content("", schema)},
        "responses": {"201": stored, "200": {"description": "It was stored before."}, **ERRORS},
    }


def _describe_mute() -> dict[str, Any]:
    properties = {"name": {"type": "string"}, "hours": {"type": "number"}}
    form = {"schema": {"type": "object", "properties": properties, "required": ["name"]}}
    return {
        "summary": "Mute a rule or an alert for some hours; without hours the mute ends. Role "
        "admin.",
        "requestBody": {"content": {"application/x-www-form-urlencoded": form}},
        "responses": {
            "200": {"description": "The mutes, with their ends as Unix times."},
            **ERRORS,
        },
    }


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _json_content(text: str, schema: Any) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
