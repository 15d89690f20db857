"""Who holds memory, as sections."""

from __future__ import annotations

from typing import Final

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.memory import MemoryAccount, MemoryDeath, MemoryOption, ModuleRow
from whyidle.reports._number_format import (
    NONE,
    format_bytes,
    format_digits,
    format_percent,
    format_seconds,
)
from whyidle.reports._sections import (
    Column,
    Facts,
    Folded,
    Items,
    Line,
    Paragraph,
    Part,
    Section,
    Span,
    Table,
)

NAMED: Final = 4
"""modules named in an option"""
MODULES: Final = (Column("kept", True), Column("forward pass", True), Column("module"))
OPTIONS: Final = (Column("peak", True), Column("step", True), Column("samples/s", True, 1),
                  Column("setting"))  # fmt: skip


def memory_section(diagnosis: Diagnosis, most: int | None = None) -> Section | None:
    """Who holds memory, and what other settings would need; None without a look at memory. On one
    screen (``most``), the answers without their tables."""
    account = diagnosis.memory
    if account is None or (account.death is not None and account.peak is None):
        return None
    parts: list[Part] = [Paragraph(describe_peak(account), tone="strong")]
    if most is not None:
        facts = [(label, Span(text)) for label, text in _list_answers(account) if text]
        return Section("Memory", [*parts, Facts(facts[:most])], "memory")
    parts.append(_owners(account))
    if account.modules:
        rows = [_module_cells(row) for row in account.modules]
        summary = f"Activations of {len(account.modules)} modules"
        parts.append(Folded(summary, [Table(MODULES, rows)]))
    if account.options:
        rows = [option_cells(option) for option in account.options]
        parts += [Paragraph("predicted for other settings", tone="dim"), Table(OPTIONS, rows)]
    texts = [f"batch: {text}" for text in _list_batches(account)] + list_notes(account)
    texts += [f"not known: {text}" for text in account.unknown]
    return Section("Memory", [*parts, Items(texts)], "memory")


def _list_batches(account: MemoryAccount) -> list[str]:
    """The batch now, the largest that fits, and with modules recomputed."""
    batches, more = [], account.largest_recomputed
    if account.batch:
        batches.append(f"{account.batch:,} now")
    if account.largest_batch is not None:
        largest = account.largest_batch
        few = largest < 16 * (account.batch or 0)  # no peak is predicted beyond
        fit = f"up to about {largest:,} fit" if few else f"{largest:,} and perhaps more fit"
        batches.append(fit if largest else "not even a small one fits")
    if more is not None:
        what = "one module" if len(more.modules) == 1 else f"{len(more.modules)} modules"
        batches.append(f"{more.batch:,} with {what} recomputed (torch.utils.checkpoint.checkpoint)")
    return [", ".join(batches)] if batches else []


def _list_answers(account: MemoryAccount) -> list[tuple[str, str]]:
    """Labels and answers of one screen, the batch first."""
    held = [f"{part.owner} {format_bytes(part.bytes)}" for part in account.parts[:NAMED]]
    modules = [f"{row.name} {format_bytes(row.activations)}" for row in account.modules[:NAMED]]
    listed = [o for o in account.options if o.change in ("precision", "sharding")]
    answers = [("batch", text) for text in _list_batches(account)]
    answers += [("held by", ", ".join(held))]
    answers.append(("activations", ", ".join(modules)))
    answers += [("or", f"{o.summary}: {format_bytes(o.peak)}{_FITS[o.fits]}") for o in listed]
    return [*answers, *(("not known", text) for text in account.unknown[:2])]


_FITS: Final = {True: ", fits", False: ", does not fit", None: ""}


def _owners(account: MemoryAccount) -> Table:
    whole = sum(part.bytes for part in account.parts) or 1
    sizes = [(part.bytes, part.owner) for part in account.parts]
    rows: list[list[Line]] = [[format_bytes(n), format_percent(n / whole), o] for n, o in sizes]
    return Table([Column("held", True), Column("share", True), Column("by")], rows)


def _module_cells(row: ModuleRow) -> list[Line]:
    forward = format_seconds(row.forward_s) if row.forward_s else ""
    return [format_bytes(row.activations), forward, f"{row.name}  {row.kind}".rstrip()]


def death_section(diagnosis: Diagnosis) -> Section | None:
    """What held memory when the job died for lack of it; None if it did not."""
    death = diagnosis.memory.death if diagnosis.memory else None
    if death is None:
        return None
    rows: list[list[Line]] = [[format_bytes(part.bytes), part.owner] for part in death.parts]
    facts = [
        ("largest", ", ".join(death.largest)),
        ("would have fitted", death.change),
    ]
    parts = [
        Paragraph(describe_death(death), tone="strong"),
        Table([Column("held", True), Column("by")], rows) if rows else None,
        Facts([(label, text) for label, text in facts if text]),
    ]
    return Section("Out of memory", parts, "out-of-memory")


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
        counted = sum(part.bytes for part in death.parts) / death.capacity
        text += f"; the limit is {format_bytes(death.capacity)}"
        text += f", {format_percent(counted)} of it held as below" if counted else ""
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
    if account.limit and account.usable:
        close = "fits barely" if account.peak <= account.limit else "does not fit"
        verdict = "fits" if account.peak <= account.usable else close
        text = f"{verdict} in {format_bytes(account.limit)}: {text}"
    elif account.limit:
        text += f", of {format_bytes(account.limit)} that it may hold"
    return text


_PHASES: Final = {
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "update by the optimizer",
    None: "step",
}


def option_cells(option: MemoryOption) -> list[Line]:
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
