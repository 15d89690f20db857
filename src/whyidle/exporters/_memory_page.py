"""The memory section of the report for a terminal."""

from __future__ import annotations

from typing import Final

from whyidle.exporters._number_format import format_bytes, format_percent, format_seconds
from whyidle.exporters._text_page import Page
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.memory import MemoryAccount

ROWS: Final = 8
"""modules shown unless all are asked for"""
BAR: Final = 24
"""columns of the longest bar"""


def draw_memory(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """Draw who holds memory, and what other settings would need."""
    account = diagnosis.memory
    if account is None:
        return
    page.write_blank_line()
    head = page.styled_text("memory  ", "dim")
    page.write_paragraph(describe_peak(account), style="bold", indent=2, head=head)
    largest = max((part.bytes for part in account.parts), default=0)
    whole = sum(part.bytes for part in account.parts)
    for part in account.parts:
        bar = "█" * max(round(BAR * part.bytes / largest), 1)
        share = format_percent(part.bytes / whole)
        page.write_row(
            page.styled_text(f"  {format_bytes(part.bytes):>8}  {share:>5}  {part.owner:<28} {bar}")
        )
    _draw_modules(page, account, full)
    for text in [*list_notes(account), *account.advice]:
        page.write_paragraph(text, indent=2)
    for text in account.unknown:
        page.write_paragraph(text, label="not known  ", indent=2)


def describe_peak(account: MemoryAccount) -> str:
    """One line: the peak of a step, where it is reached, and the limit."""
    if account.peak is None:
        return "what outlives a step"
    text = (
        f"{format_bytes(account.peak)} at the peak of a step, in the {_PHASES[account.peak_phase]}"
    )
    if account.limit:
        text += f", of {format_bytes(account.limit)} that fit"
    return text


_PHASES: Final = {
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "update by the optimizer",
    None: "step",
}


def _draw_modules(page: Page, account: MemoryAccount, full: bool) -> None:
    rows = account.modules if full else account.modules[:ROWS]
    if not rows:
        return
    page.write_blank_line()
    page.write_paragraph("activations, by module", style="dim", indent=2)
    for row in rows:
        forward = f", forward {format_seconds(row.forward_s)}" if row.forward_s else ""
        name = f"{row.name}  {row.kind}" if row.kind else row.name
        page.write_row(page.styled_text(f"  {format_bytes(row.activations):>8}  {name}{forward}"))
    left = account.modules[len(rows) :]
    if left:
        size = format_bytes(sum(row.activations for row in left))
        page.write_row(page.styled_text(f"  {size:>8}  {len(left)} more"))
    page.write_blank_line()


def list_notes(account: MemoryAccount) -> list[str]:
    """Sentences on the allocator's and the loader's memory, as far as known."""
    notes = []
    if account.fragmentation is not None:
        notes.append(
            f"the allocator reserves {format_bytes(account.reserved)}, of which "
            f"{format_bytes(account.fragmentation)} are not allocated at the end of a step"
        )
    if account.loader_bytes and account.shared_bytes:
        notes.append(
            f"loader workers hold up to {format_bytes(account.loader_bytes)} of batches ahead in "
            f"/dev/shm, which has {format_bytes(account.shared_bytes)}"
        )
    return notes
