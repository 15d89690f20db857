"""What a terminal says below the findings: notes on what was read, and what could not be judged."""

from __future__ import annotations

from whyidle.exporters._text_page import PROSE, Page, limit_rows
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.signals import SIGNALS

_NOTES = 3
_LACKS = 3
"""so many of each are shown, the rest is counted; ``full`` shows all"""


def draw_limitations(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """Notes on what was read, and what could not be judged: of a command without any step that is
    everything, and goes without saying."""
    gone = diagnosis.abstentions if full or not diagnosis.saw_nothing else []
    if diagnosis.coverage.notes or gone:
        page.write_blank_line()
    _draw_notes(page, diagnosis, full)
    if not gone:
        return
    missing: dict[str, list[str]] = {}
    for abstention in gone:
        for signal in abstention.missing:
            missing.setdefault(signal, []).append(abstention.cause)
    if full:
        _draw_abstentions(page, missing)
        return
    most = sorted(missing, key=lambda signal: -len(missing[signal]))
    lacks = "; ".join(_signal_meaning(signal) for signal in most[:_LACKS])
    more = f"; and {len(most) - _LACKS} more" if len(most) > _LACKS else ""
    count = f"{len(gone)} cause{'s' if len(gone) > 1 else ''}"
    page.write_paragraph(
        page.styled_text(f"could not judge {count}; not recorded: {lacks}{more}", "dim"), indent=2
    )
    page.write_paragraph(
        page.styled_text("--all says what each lacks and how to get it", "dim"), indent=2
    )


def _draw_notes(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    for label, text in limit_rows("note", diagnosis.coverage.notes, None if full else _NOTES):
        page.write_paragraph(
            page.styled_text(text, "dim", PROSE),
            head=page.styled_text(f"{label:<5}", "dim"),
            indent=2,
        )


def _draw_abstentions(page: Page, missing: dict[str, list[str]]) -> None:
    for signal, causes in missing.items():
        page.write_paragraph(
            page.styled_text(
                f"could not judge {', '.join(causes)}; not recorded: {_signal_meaning(signal)}"
            ),
            indent=2,
        )
        if signal in SIGNALS:
            page.write_paragraph(
                page.styled_text(f"to get it, {SIGNALS[signal].how}", "dim"), indent=4
            )


def _signal_meaning(signal: str) -> str:
    return SIGNALS[signal].meaning if signal in SIGNALS else signal
