"""The memory section of the report for a terminal."""

from __future__ import annotations

from typing import Final

from whyidle.exporters._number_format import (
    NONE,
    format_bytes,
    format_digits,
    format_factor,
    format_percent,
    format_seconds,
)
from whyidle.exporters._text_page import Page
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.memory import MemoryAccount, MemoryDeath, MemoryOption, NoiseRow

ROWS: Final = 8
"""modules shown unless all are asked for"""
NAMED: Final = 4
"""modules named in an option"""
BAR: Final = 24
"""columns of the longest bar"""


def draw_memory(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """Draw who holds memory, and what other settings would need."""
    account = diagnosis.memory
    if account is None or (account.death is not None and account.peak is None):
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
    _draw_options(page, account)
    for text in [*list_advice(account), *list_notes(account)]:
        page.write_paragraph(text, indent=2)
    for text in account.unknown:
        page.write_paragraph(text, label="not known  ", indent=2)


def draw_death(page: Page, diagnosis: Diagnosis) -> None:
    """Draw what held memory when the job died for lack of it."""
    death = diagnosis.memory.death if diagnosis.memory else None
    if death is None:
        return
    head = page.styled_text("out of memory  ", "bold red")
    page.write_paragraph(describe_death(death), style="bold", indent=2, head=head)
    for part in death.parts:
        page.write_row(page.styled_text(f"  {format_bytes(part.bytes):>8}  {part.owner}"))
    if death.largest:
        page.write_paragraph(", ".join(death.largest), label="largest variables  ", indent=2)
    if death.growth:
        page.write_paragraph(death.growth, label="grew  ", indent=2)
    page.write_paragraph(death.change, label="would have fitted  ", indent=2)
    page.write_blank_line()


def describe_death(death: MemoryDeath) -> str:
    """One line: what was asked for, where, and of how much."""
    text = f"{format_bytes(death.requested)} were asked for" if death.requested else death.error
    if death.file:
        text += f" at {death.file}:{death.line} in {death.function}"
    if death.backward:
        text += ", in the backward pass"
    elif death.module:
        text += f", in the forward pass of {death.module}"
    if death.capacity:
        text += f"; the device has {format_bytes(death.capacity)}"
    if death.fragmentation:
        text += f", of which {format_bytes(death.fragmentation)} are reserved and unallocated"
    return text


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


def _draw_options(page: Page, account: MemoryAccount) -> None:
    if not account.options:
        return
    page.write_paragraph("predicted for other settings", style="dim", indent=2)
    heads = ["  peak", "step", "samples/s", "setting"]
    rows = [
        [page.styled_text(f"  {text}" if turn == 0 else text) for turn, text in enumerate(cells)]
        for cells in map(option_cells, account.options)
    ]
    page.table(heads, rows)
    page.write_blank_line()


def option_cells(option: MemoryOption) -> list[str]:
    """The cells of an option: peak, step time, samples per second, and what it is."""
    about = "about " if option.far and option.peak else ""
    text = option.summary
    if option.fits is False:
        text += "; does not fit"
    if option.modules:
        text += f": {', '.join(option.modules[:NAMED])}"
        text += f" and {len(option.modules) - NAMED} more" if len(option.modules) > NAMED else ""
    rate = format_digits(option.samples_per_s) if option.samples_per_s else NONE
    return [about + format_bytes(option.peak), format_seconds(option.step_s), rate, text]


def list_advice(account: MemoryAccount) -> list[str]:
    """Sentences on the batch: the largest that fits, and the one worth using."""
    texts, more, best = [], account.largest_recomputed, account.best_batch
    if account.largest_batch:
        text = f"the largest batch that fits is about {account.largest_batch:,}"
        if more is not None:
            count = len(more.modules)
            what = "one module" if count == 1 else f"{count} modules"
            text += f", with {what} recomputed {more.batch:,}"
        texts.append(text)
    now = next((o for o in account.options if o.change == "recomputation"), None)
    if now is not None:
        texts.append(
            "to recompute: torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False) where "
            f"the model calls {', '.join(now.modules)}"
        )
    if best is not None and account.batch:
        texts.append(_describe_best(account, best))
    if account.noise is not None:
        texts.append(_describe_noise(account.noise))
    return [*texts, *account.advice]


def _describe_best(account: MemoryAccount, best: MemoryOption) -> str:
    if best.batch == account.batch:
        return f"batch {best.batch} is within 3 % of the best samples per second that is predicted"
    text = (
        f"batch {best.batch}: the smallest within 3 % of the best samples per second, predicted "
        f"{format_digits(best.samples_per_s or 0.0)} a second"
    )
    if best.time_to_loss is not None and best.time_to_loss_low is not None:
        text += (
            f"; time to the same loss {format_factor(best.time_to_loss)} of now "
            f"({format_factor(best.time_to_loss_low)} to "
            f"{format_factor(best.time_to_loss_high or best.time_to_loss)})"
        )
    if best.batch > (account.batch or 0):
        text += (
            "; first join accumulated micro-batches, which changes nothing; a larger batch per "
            "update may learn differently and needs a learning rate scaled linearly for SGD with "
            "warm-up, by the square root for Adam"
        )
    return text


def _describe_noise(noise: NoiseRow) -> str:
    low, high = f"{noise.low:,.0f}", f"{noise.high:,.0f}" if noise.high is not None else None
    if noise.samples is None:
        text = f"at least {low} samples"
    else:
        text = f"{noise.samples:,.0f} samples ({low} to {high or 'any number'})"
    return (
        f"gradient noise scale: {text}, from one batch of an early step; beyond it, more samples "
        "per step teach little, and it grows in training"
    )


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
