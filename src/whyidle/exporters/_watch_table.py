"""Renders one look at a machine: a line for each GPU, an indented line for each job.

The last columns say why a GPU is in its state, and since when. Narrow terminals lose the columns of
figures, never the reason. Where the screen is too short, lines of jobs go first, then GPUs that
work or are free become one line. The user's view sorts rows and opens their details.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from rich.text import Text

from whyidle.exporters._number_format import format_percent, format_place, format_seconds
from whyidle.exporters._text_page import Colours, Page
from whyidle.model.watch_document import GpuState, Reason, WatchedGpu, WatchedJob, WatchedMachine

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
_QUIET: Final = ("active", "free")
_URGENT: Final = ("lost", "stalled", "idle-held", "idle-reserved", "throttled", "starved")
Order = Literal["number", "state", "use", "memory"]
ORDERS: Final[tuple[Order, ...]] = ("number", "state", "use", "memory")
"""state: the gravest first · use: the idlest first · memory: the fullest first"""
_NOTICES: Final = 3
_WIDE, _WIDEST = 100, 140
_GIB: Final = 1 << 30


class _Column(NamedTuple):
    title: str
    width: int
    least: int  # columns of the terminal from which it is shown


_COLUMNS: Final = (
    _Column("GPU", 7, 0),
    _Column("busy", 10, _WIDE),
    _Column("", 4, 0),
    _Column("SM", 4, _WIDEST),
    _Column("tensor", 6, _WIDEST),
    _Column("memory", 10, 0),
    _Column("power", 9, _WIDE),
    _Column("state", 13, 0),
    _Column("since", 6, 0),
)


@dataclass(slots=True)
class WatchView:
    """What the user of a terminal has chosen. Rows are named as ``list_rows`` names them."""

    order: Order = "number"
    opened: set[str] = field(default_factory=set)
    selected: str | None = None
    notices: Sequence[str] = ()  # alerts, the latest last


def list_rows(machine: WatchedMachine, view: WatchView) -> list[str]:
    """The rows that can be opened, in the order in which they are shown."""
    loose = [job.key for job in machine.jobs if not job.gpus]
    return [*(gpu.gpu for gpu in _sort_gpus(machine, view)), *loose]


def _sort_gpus(machine: WatchedMachine, view: WatchView) -> list[WatchedGpu]:
    if view.order == "state":
        ranks = {state: rank for rank, state in enumerate(_URGENT)}
        return sorted(machine.gpus, key=lambda gpu: ranks.get(gpu.state, len(ranks)))
    if view.order == "use":
        return sorted(machine.gpus, key=lambda gpu: (gpu.busy is None, gpu.busy or 0.0))
    if view.order == "memory":
        return sorted(machine.gpus, key=lambda gpu: -(gpu.memory_used_bytes or 0))
    return list(machine.gpus)


def render_machine(
    machine: WatchedMachine,
    *,
    width: int,
    colours: Colours | None,
    height: int | None = None,
    view: WatchView | None = None,
) -> str:
    """Render the table; ``height`` limits its lines. With a ``view`` the last says what keys do."""
    page, shown = Page(width, colours), view or WatchView()
    foot = [] if view is None else _foot(page, machine, view)
    room = None if height is None else height - len(foot)
    rows = [_head(page, machine), *_body(page, machine, room, shown)]
    for row in [*rows, *foot]:
        row.rstrip()
        row.truncate(width, overflow="crop" if page.plain else "ellipsis")
        page.write_row(row)
    return page.page_text()


def _head(page: Page, machine: WatchedMachine) -> Text:
    host, gpus = machine.host, machine.gpus
    words = [machine.time[11:19], f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"]
    busy = [gpu.busy for gpu in gpus if gpu.busy is not None]
    words += [f"busy {format_percent(sum(busy) / len(busy))}"] if busy else []
    counts = Counter(gpu.state for gpu in gpus)
    words += [f"{counts[state]} {state}" for state in STYLES if counts[state]]
    if host.cores_used is not None and page.width >= _WIDE:
        words.append(f"cpu {host.cores_used:.1f} of {host.cores or 0:g} cores")
    words += [f"driver {machine.driver}"] if machine.driver and page.width >= _WIDE else []
    head = page.styled_text(f"{host.name}  ", "bold")
    return head.append_text(page.styled_text("  ".join(words)))


def _foot(page: Page, machine: WatchedMachine, view: WatchView) -> list[Text]:
    rows = [page.styled_text(text, "bold yellow") for text in view.notices[-_NOTICES:]]
    digits = "0-9, " if machine.gpus else ""
    keys = f"q quit   s sort: by {view.order}   {digits}up, down and Enter: details"
    return [*rows, page.styled_text(keys, "dim")]


def _body(page: Page, machine: WatchedMachine, height: int | None, view: WatchView) -> list[Text]:
    rows: list[Text] = []
    if machine.absent is not None:
        rows += _wrap(page, f"no GPU is shown: {machine.absent.reason}", style="yellow")
        rows += _wrap(page, machine.absent.how, indent="  try: ")
    if machine.gpus:
        room = None if height is None else height - len(rows) - 1
        rows += _gpu_rows(page, machine, room, view)
    loose = [job for job in machine.jobs if not job.gpus]
    if loose:
        rows.append(page.styled_text("jobs without a GPU", "dim"))
    for job in loose:
        rows += _mark(_job_rows(page, job, with_reason=True), job.key, page, view)
        if job.key in view.opened:
            rows += _job_details(page, job)
    if not machine.gpus and not machine.jobs:
        rows.append(page.styled_text("no job is watched: whyidle run COMMAND", "dim"))
    return rows if height is None else rows[: max(1, height - 1)]


def _mark(rows: list[Text], name: str, page: Page, view: WatchView) -> list[Text]:
    """Rows whose first is shown as the selected one, if it is."""
    if name == view.selected and not page.plain:
        rows[0].pad_right(max(0, page.width - rows[0].cell_len))
        rows[0].stylize("reverse")
    return rows


def _gpu_rows(page: Page, machine: WatchedMachine, room: int | None, view: WatchView) -> list[Text]:
    shown = _sort_gpus(machine, view)
    listed = {gpu.gpu: _first_shown(gpu, machine, shown) for gpu in shown}
    details = {g.gpu: _gpu_details(page, g, machine) for g in shown if g.gpu in view.opened}
    total = 1 + sum(
        len(_gpu_lines(page, gpu, machine, with_jobs=True))
        + len(details.get(gpu.gpu) or listed[gpu.gpu])
        for gpu in shown
    )
    with_jobs = room is None or total <= room
    rest = ""
    if room is not None and 1 + len(shown) > room:
        kept = {*view.opened, view.selected}
        quiet = [gpu for gpu in shown if gpu.state in _QUIET and gpu.gpu not in kept]
        shown = [gpu for gpu in shown if gpu not in quiet]
        counts = Counter(gpu.state for gpu in quiet)
        rest = ", ".join(f"{count} more {state}" for state, count in counts.items())
    rows = [_header(page)]
    for gpu in shown:
        lines = _gpu_lines(page, gpu, machine, with_jobs=with_jobs)
        rows += _mark(lines, gpu.gpu, page, view)
        rows += details.get(gpu.gpu, [])
        for job in listed[gpu.gpu] if with_jobs and gpu.gpu not in details else []:
            rows += _job_rows(page, job, with_reason=False)
    if rest:
        rows.append(page.styled_text(rest, "dim"))
    return rows


def _gpu_lines(
    page: Page, gpu: WatchedGpu, machine: WatchedMachine, *, with_jobs: bool
) -> list[Text]:
    """The line of a GPU. A reason that does not fit beside it stands below, in full."""
    row = _gpu_row(page, gpu)
    reason = reason_text(gpu.reason)
    if not with_jobs:
        return [row.append_text(page.styled_text(_describe_reason(gpu, machine)))]
    if row.cell_len + len(reason) <= page.width:
        return [row.append_text(page.styled_text(reason))]
    return [row, *_wrap(page, reason, indent="    ")]


def _first_shown(
    gpu: WatchedGpu, machine: WatchedMachine, shown: Sequence[WatchedGpu]
) -> list[WatchedJob]:
    """The jobs whose line stands below this GPU: those that it is the first GPU of."""
    name = gpu.uuid or gpu.gpu
    order = {one.uuid or one.gpu: position for position, one in enumerate(shown)}
    firsts = ((min(j.gpus, key=lambda n: order.get(n, len(order)), default=""), j)
              for j in machine.jobs)  # fmt: skip
    return [job for first, job in firsts if first == name]


def _gpu_details(page: Page, gpu: WatchedGpu, machine: WatchedMachine) -> list[Text]:
    """Everything that is known of a GPU and its jobs."""
    facts = [gpu.name, gpu.uuid, gpu.pci]
    facts += [f"{gpu.temperature_c:.0f} C"] if gpu.temperature_c is not None else []
    facts += [f"clocks held back: {', '.join(gpu.clock_reasons)}"] if gpu.clock_reasons else []
    facts += [f"Xid {gpu.xid_last}"] if gpu.xid_last else []
    rows = _wrap(page, "  ".join(fact for fact in facts if fact), indent="    ", style="dim")
    rows += _reason_details(page, gpu.reason)
    for job in machine.jobs:
        if job.key in gpu.jobs:
            rows += _job_rows(page, job, with_reason=False)
            rows += _job_details(page, job, told=gpu.reason)
    return rows


def _job_details(page: Page, job: WatchedJob, told: Reason | None = None) -> list[Text]:
    """Everything that is known of a job; ``told``: a reason that stands above already."""
    processes = f"{len(job.pids)} processes, the first is {job.pid}" if job.pids else "no process"
    facts = [processes, *(f"{name} {text}" for name, text in job.tenant.labels.items())]
    facts += [f"{job.memory_bytes / _GIB:.1f} GiB of memory"] if job.memory_bytes else []
    facts += [f"started {short_time(job.age_s)} ago"] if job.age_s is not None else []
    rows = _wrap(page, "  ".join(facts), indent="      ", style="dim")
    if job.steps is not None:
        shares = sorted((job.steps.shares or {}).items(), key=lambda pair: -pair[1])
        known = [f"{place} {format_percent(share)}" for place, share in shares if share >= 0.005]
        if known:
            rows += _wrap(page, f"step: {', '.join(known)}", indent="      ")
    if job.reason != told:
        rows += _reason_details(page, job.reason)
    for suspected in job.suspicions:
        rows += _wrap(page, suspected.text, indent="    ! " if page.plain else "    • ")
    return rows + [
        line for text in job.unread for line in _wrap(page, text, indent="      not read: ")
    ]


def _reason_details(page: Page, reason: Reason | None) -> list[Text]:
    if reason is None:
        return []
    rows = []
    if reason.fix:
        rows += _wrap(page, reason.fix, indent="    try: ")
    if reason.proof:
        rows += _wrap(page, reason.proof, indent="    to prove it: ")
    if reason.proven and reason.cause:
        rows += _wrap(page, f"whyidle causes {reason.cause}", indent="    more: ", style="dim")
    return rows


def _header(page: Page) -> Text:
    cells = [_fit(column.title, column.width) for column in _visible(page)]
    return page.styled_text(" ".join([*cells, "why"]), "dim")


def _visible(page: Page) -> list[_Column]:
    return [column for column in _COLUMNS if page.width >= column.least]


def _gpu_row(page: Page, gpu: WatchedGpu) -> Text:
    cells = {
        "GPU": gpu.gpu.removeprefix("gpu"),
        "busy": _bar(gpu.busy, plain=page.plain),
        "": "" if gpu.busy is None else format_percent(gpu.busy),
        "SM": "" if gpu.sm_active is None else format_percent(gpu.sm_active),
        "tensor": "" if gpu.tensor_active is None else format_percent(gpu.tensor_active),
        "memory": _pair(gpu.memory_used_bytes, gpu.memory_bytes, _GIB, "G"),
        "power": _pair(gpu.power_w, gpu.power_limit_w, 1, "W"),
        "since": short_time(gpu.since_s),
    }
    row = Text()
    for column in _visible(page):
        if column.title == "state":
            row.append_text(page.styled_text(_fit(gpu.state, column.width), STYLES[gpu.state]))
        else:
            row.append_text(page.styled_text(_fit(cells[column.title], column.width)))
        row.append(" ")
    return row


def _describe_reason(gpu: WatchedGpu, machine: WatchedMachine) -> str:
    jobs = [job for job in machine.jobs if job.key in gpu.jobs]
    who = next((_describe_owner(job) for job in jobs), "")
    text = reason_text(gpu.reason)
    return f"{who}: {text}" if who and text else who or text


def reason_text(reason: Reason | None) -> str:
    """A reason with its place."""
    if reason is None:
        return ""
    place = f" ({format_place(reason.place)})" if reason.place else ""
    return f"{reason.text}{place}"


def _describe_owner(job: WatchedJob) -> str:
    tenant = job.tenant
    words = [job.user or f"pid {job.pid}"]
    if tenant.kind != "plain":
        words.append(f"{tenant.kind} {tenant.job}")
    return " ".join(words)


def _job_rows(page: Page, job: WatchedJob, *, with_reason: bool) -> list[Text]:
    mark = "  - " if page.plain else "  └ "
    parts = [_describe_owner(job)]
    if len(job.gpus) > 1:
        parts.append(f"{len(job.gpus)} GPUs")
    if job.cores_used is not None:
        parts.append(f"{job.cores_used:.1f} cores")
    if job.steps is not None and job.steps.step_s is not None:
        parts.append(f"{job.steps.count:,} steps of {format_seconds(job.steps.step_s)}")
    parts.append(_short_command(job.command) if job.command else ", ".join(job.unread))
    head = page.styled_text(mark, "dim")
    if with_reason:
        head.append_text(page.styled_text(_fit(job.state, 14), STYLES[job.state]))
    rows = [head.append_text(page.styled_text("  ".join(parts), "" if with_reason else "dim"))]
    if with_reason and job.reason is not None:
        rows += _wrap(page, reason_text(job.reason), indent="      ")
    return rows


def _wrap(page: Page, text: str, *, indent: str = "", style: str = "") -> list[Text]:
    lines = textwrap.wrap(text, max(20, page.width - len(indent) - 1), max_lines=2)
    blank = " " * len(indent)
    return [
        page.styled_text(f"{blank if number else indent}{line}", style)
        for number, line in enumerate(lines)
    ]


def _short_command(command: str) -> str:
    """Without the folders of the first two words, which are an interpreter and a script."""
    words = command.split(" ")
    return " ".join([*(word.rpartition("/")[2] or word for word in words[:2]), *words[2:]])


def _bar(share: float | None, *, plain: bool) -> str:
    if share is None:
        return ""
    cells = round(share * 10)
    return ("#" if plain else "█") * cells + ("." if plain else "░") * (10 - cells)


def _pair(used: float | None, whole: float | None, unit: float, name: str) -> str:
    if used is None:
        return ""
    return f"{used / unit:.0f}{f'/{whole / unit:.0f}' if whole else ''} {name}"


def _fit(text: str, width: int) -> str:
    return text[:width].ljust(width)


def short_time(seconds: float) -> str:
    """A length of time in at most six characters: ``45 s``, ``12 min``, ``3 h``, ``2 d``."""
    for unit, name in ((86_400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def summarise_states(machine: WatchedMachine, states: Sequence[str]) -> str:
    """Which GPUs, or jobs without one, are in one of these states; empty if none is."""
    named = [f"{gpu.gpu} {gpu.state}" for gpu in machine.gpus if gpu.state in states]
    named += [f"{j.key} {j.state}" for j in machine.jobs if not j.gpus and j.state in states]
    return ", ".join(named)
