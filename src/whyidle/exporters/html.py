"""One self-contained HTML page: opens offline, light and dark, on a phone and on paper."""

from __future__ import annotations

from html import escape

from whyidle.model.diagnosis import Diagnosis

SUFFIXES = (".html", ".htm")
WANTS = "file"


def render(diagnosis: Diagnosis) -> str:
    """The page as text."""
    return f"<!doctype html><title>{escape(diagnosis.verdict.headline)}</title>\n"
