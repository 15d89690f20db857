"""Renders notes and abstentions for a terminal."""

from __future__ import annotations

from whyidle.exporters._text_page import PROSE, Page, limit_rows
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.signals import SIGNALS

_NOTES = 3
_SIGNALS = 3
"""rows that are shown; the rest is counted, and ``full`` shows all"""


def draw_limitations(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """Draw notes and abstentions; a run without any step lists its abstentions only if ``full``."""
    abstentions = diagnosis.abstentions if full or not diagnosis.saw_nothing else []
    if diagnosis.coverage.notes or abstentions:
        page.write_blank_line()
    for label, text in limit_rows("note", diagnosis.coverage.notes, None if full else _NOTES):
        head = page.styled_text(f"{label:<5}", "dim")
        page.write_paragraph(page.styled_text(text, "dim", PROSE), head=head, indent=2)
    if not abstentions:
        return
    missing: dict[str, list[str]] = {}
    for abstention in abstentions:
        for signal in abstention.missing:
            missing.setdefault(signal, []).append(abstention.cause)
    if full:
        _draw_abstentions(page, missing)
        return
    order = sorted(missing, key=lambda signal: -len(missing[signal]))
    signals = "; ".join(_signal_meaning(signal) for signal in order[:_SIGNALS])
    more = f"; and {len(order) - _SIGNALS} more" if len(order) > _SIGNALS else ""
    count = f"{len(abstentions)} cause{'s' if len(abstentions) > 1 else ''}"
    page.write_paragraph(
        f"{count} not checked, because the recording lacks {signals}{more} (--all lists them)",
        style="dim",
        indent=2,
    )


def _draw_abstentions(page: Page, missing: dict[str, list[str]]) -> None:
    for signal, causes in missing.items():
        page.write_paragraph(
            f"not checked: {', '.join(causes)}; not recorded: {_signal_meaning(signal)}",
            indent=2,
        )
        if signal in SIGNALS:
            page.write_paragraph(f"to record it, {SIGNALS[signal].how}", style="dim", indent=4)


def _signal_meaning(signal: str) -> str:
    return SIGNALS[signal].meaning if signal in SIGNALS else signal
