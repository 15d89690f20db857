"""Markdown to paste into an issue: verdict, attribution, findings, and what remains unknown."""

from __future__ import annotations

from whyidle.model.diagnosis import Diagnosis
from whyidle.reports._markdown_sections import render_markdown
from whyidle.reports._relative_paths import shorten_paths
from whyidle.reports._report import report_parts


def render(diagnosis: Diagnosis) -> str:
    """Render the diagnosis as GitHub-flavoured Markdown."""
    return render_markdown(report_parts(shorten_paths(diagnosis)))
