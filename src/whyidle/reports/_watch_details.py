"""Lines of ``whyidle watch`` below a GPU: its jobs, and the details that a user opens."""

from __future__ import annotations

import textwrap
from typing import Final

from rich.text import Text

from whyidle.model.documents.watch_document import (
    GpuState,
    Reason,
    WatchedGpu,
    WatchedJob,
    WatchedMachine,
)
from whyidle.reports._number_format import format_age, format_percent, format_place, format_seconds
from whyidle.reports._text_page import Page

STYLES: Final[dict[GpuState, str]] = {
    "active": "green",
    "starved": "bold red",
    "idle-held": "bold magenta",
    "idle-reserved": "bold magenta",
    "stalled": "bold red",
    "throttled": "bold yellow",
    "free": "dim",
    "lost": "bold white on red",
}
"""of the terminal's own palette, which is legible on dark and on light backgrounds"""
_GIB: Final = 1 << 30


def gpu_details(page: Page, gpu: WatchedGpu, machine: WatchedMachine) -> list[Text]:
    """Everything that is known of a GPU and its jobs."""
    facts = [gpu.name, gpu.uuid, gpu.pci]
    facts += [f"{gpu.temperature_c:.0f} C"] if gpu.temperature_c is not None else []
    facts += [f"clocks held back: {', '.join(gpu.clock_reasons)}"] if gpu.clock_reasons else []
    facts += [f"Xid {gpu.xid_last}"] if gpu.xid_last else []
    rows = wrap_text(page, "  ".join(fact for fact in facts if fact), indent="    ", style="dim")
    rows += _reason_details(page, gpu.reason)
    for job in machine.jobs:
        if job.key in gpu.jobs:
            rows += job_rows(page, job, with_reason=False)
            rows += job_details(page, job, shown=gpu.reason)
    return rows


def job_details(page: Page, job: WatchedJob, shown: Reason | None = None) -> list[Text]:
    """Everything that is known of a job; ``shown``: a reason that stands above already."""
    processes = f"{len(job.pids)} processes, the first is {job.pid}" if job.pids else "no process"
    facts = [processes, *(f"{name} {text}" for name, text in job.tenant.labels.items())]
    facts += [f"{job.memory_bytes / _GIB:.1f} GiB of memory"] if job.memory_bytes else []
    facts += [f"started {format_age(job.age_s)} ago"] if job.age_s is not None else []
    rows = wrap_text(page, "  ".join(facts), indent="      ", style="dim")
    if job.steps is not None:
        shares = sorted((job.steps.shares or {}).items(), key=lambda pair: -pair[1])
        known = [f"{place} {format_percent(share)}" for place, share in shares if share >= 0.005]
        if known:
            rows += wrap_text(page, f"step: {', '.join(known)}", indent="      ")
    if job.reason != shown:
        rows += _reason_details(page, job.reason)
    for suspected in job.suspicions:
        rows += wrap_text(page, suspected.text, indent="    ! " if page.plain else "    • ")
    return rows + [
        line for text in job.unread for line in wrap_text(page, text, indent="      not read: ")
    ]


def _reason_details(page: Page, reason: Reason | None) -> list[Text]:
    if reason is None:
        return []
    rows = []
    if reason.fix:
        rows += wrap_text(page, reason.fix, indent="    try: ")
    if reason.proof:
        rows += wrap_text(page, reason.proof, indent="    to prove it: ")
    if reason.proven and reason.cause:
        rows += wrap_text(page, f"whyidle causes {reason.cause}", indent="    more: ", style="dim")
    return rows


def reason_text(reason: Reason | None) -> str:
    """A reason with its place."""
    if reason is None:
        return ""
    place = f" ({format_place(reason.place)})" if reason.place else ""
    return f"{reason.text}{place}"


def describe_owner(job: WatchedJob) -> str:
    tenant = job.tenant
    words = [job.user or f"pid {job.pid}"]
    if tenant.kind != "plain":
        words.append(f"{tenant.kind} {tenant.job}")
    return " ".join(words)


def job_rows(page: Page, job: WatchedJob, *, with_reason: bool) -> list[Text]:
    mark = "  - " if page.plain else "  └ "
    parts = [describe_owner(job)]
    if len(job.gpus) > 1:
        parts.append(f"{len(job.gpus)} GPUs")
    if job.cores_used is not None:
        parts.append(f"{job.cores_used:.1f} cores")
    if job.steps is not None and job.steps.step_s is not None:
        parts.append(f"{job.steps.count:,} steps of {format_seconds(job.steps.step_s)}")
    parts.append(short_command(job.command) if job.command else ", ".join(job.unread))
    head = page.styled_text(mark, "dim")
    if with_reason:
        head.append_text(page.styled_text(job.state.ljust(14), STYLES[job.state]))
    rows = [head.append_text(page.styled_text("  ".join(parts), "" if with_reason else "dim"))]
    if with_reason and job.reason is not None:
        rows += wrap_text(page, reason_text(job.reason), indent="      ")
    return rows


def wrap_text(page: Page, text: str, *, indent: str = "", style: str = "") -> list[Text]:
    width = max(20, page.width - len(indent) - 1)
    # a cause, its figures and its place take three lines in 80 columns
    lines = textwrap.wrap(text, width, max_lines=4, placeholder=" ...")
    blank = " " * len(indent)
    return [
        page.styled_text(f"{blank if number else indent}{line}", style)
        for number, line in enumerate(lines)
    ]


def short_command(command: str) -> str:
    """Without the folders of the first two words, which are an interpreter and a script."""
    words = command.split(" ")
    return " ".join([*(word.rpartition("/")[2] or word for word in words[:2]), *words[2:]])
