"""Renders one look at a machine: a line for each GPU, an indented line for each job.

The last columns say why a GPU is in its state, and since when. Narrow terminals lose the columns of
figures, never the reason. Where the screen is too short, lines of jobs go first, then GPUs that
work or are free become one line. The user's view opens details.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rich.text import Text

from whyidle.model.documents.watch_document import WatchedGpu, WatchedJob, WatchedMachine
from whyidle.reports._number_format import format_age, format_percent
from whyidle.reports._text_page import Colours, Page
from whyidle.reports._watch_details import (
    STYLES,
    describe_owner,
    gpu_details,
    job_details,
    job_rows,
    reason_text,
    wrap_text,
)

_QUIET: Final = ("active", "free")
_URGENT: Final = ("lost", "stalled", "idle-held", "idle-reserved", "throttled", "starved")
SELECTED: Final = "reverse"
_WIDE, _WIDEST = 100, 140
_GIB: Final = 1 << 30


class _Column(NamedTuple):
    title: str
    width: int
    least: int  # columns of the terminal from which it is shown
    narrow: str = ""  # title in a terminal that does not show the column before it


_COLUMNS: Final = (
    _Column("GPU", 3, 0),
    _Column("busy", 10, _WIDE),
    _Column("", 4, 0, "busy"),
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

    opened: set[str] = field(default_factory=set)
    selected: str | None = None
    notices: Sequence[str] = ()  # alerts, the latest last


def list_rows(machine: WatchedMachine) -> list[str]:
    """The rows that can be opened, in the order in which they are shown."""
    loose = [job.key for job in machine.jobs if not job.gpus]
    return [*(gpu.gpu for gpu in machine.gpus), *loose]


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
    foot = [] if view is None else _foot(page, view)
    room = None if height is None else height - len(foot)
    rows = [_head(page, machine), *_body(page, machine, room, shown)]
    for row in [*rows, *foot]:
        if row.style != SELECTED:
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
    words += [f"{counts[state]} {state}" for state in (*_URGENT, *_QUIET) if counts[state]]
    if host.cores_used is not None and page.width >= _WIDE:
        words.append(f"cpu {host.cores_used:.1f} of {host.cores or 0:g} cores")
    words += [f"driver {machine.driver}"] if machine.driver and page.width >= _WIDE else []
    head = page.styled_text(f"{host.name}  ", "bold")
    return head.append_text(page.styled_text("  ".join(words)))


def _foot(page: Page, view: WatchView) -> list[Text]:
    rows = [page.styled_text(text, "bold yellow") for text in view.notices[-3:]]
    keys = "q quit   up, down and Enter: details   Esc: none"
    return [*rows, page.styled_text(keys, "dim")]


def _body(page: Page, machine: WatchedMachine, height: int | None, view: WatchView) -> list[Text]:
    rows: list[Text] = []
    if machine.absent is not None:
        rows += wrap_text(page, f"no GPU is shown: {machine.absent.reason}", style="yellow")
        rows += wrap_text(page, machine.absent.how, indent="  try: ")
    if machine.gpus:
        room = None if height is None else height - len(rows) - 1
        rows += _gpu_rows(page, machine, room, view)
    loose = [job for job in machine.jobs if not job.gpus]
    if loose:
        rows.append(page.styled_text("jobs without a GPU", "dim"))
    for job in loose:
        rows += _mark(job_rows(page, job, with_reason=True), job.key, page, view)
        if job.key in view.opened:
            rows += job_details(page, job)
    if not machine.gpus and not machine.jobs:
        rows.append(page.styled_text("no watched jobs; start one with whyidle run COMMAND", "dim"))
    return rows if height is None else _cut_rows(page, rows, max(2, height - 1))


def _cut_rows(page: Page, rows: list[Text], room: int) -> list[Text]:
    """As many rows as there is room for, the selected one among them, and how many are not shown.
    The header stays."""
    if len(rows) <= room:
        return rows
    at = next((n for n, row in enumerate(rows) if row.style == SELECTED), 0)
    first = max(1, at - room + 3)
    shown = rows[first : first + room - 2]
    rest = len(rows) - 1 - len(shown)
    return [rows[0], *shown, page.styled_text(f"{rest} more lines: up and down", "dim")]


def _mark(rows: list[Text], name: str, page: Page, view: WatchView) -> list[Text]:
    """Rows whose first is shown as the selected one, if it is."""
    if name == view.selected and not page.plain:
        text = rows[0].plain
        rows[0] = Text(text + " " * max(0, page.width - rows[0].cell_len), style=SELECTED)
    return rows


def _gpu_rows(page: Page, machine: WatchedMachine, room: int | None, view: WatchView) -> list[Text]:
    shown = list(machine.gpus)
    listed = {gpu.gpu: _first_shown(gpu, machine, shown) for gpu in shown}
    details = {g.gpu: gpu_details(page, g, machine) for g in shown if g.gpu in view.opened}
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
    rows = [_header(page, machine)]
    for gpu in shown:
        lines = _gpu_lines(page, gpu, machine, with_jobs=with_jobs)
        rows += _mark(lines, gpu.gpu, page, view)
        rows += details.get(gpu.gpu, [])
        for job in listed[gpu.gpu] if with_jobs and gpu.gpu not in details else []:
            rows += job_rows(page, job, with_reason=False)
    if rest:
        rows.append(page.styled_text(rest, "dim"))
    return rows


def _gpu_lines(
    page: Page, gpu: WatchedGpu, machine: WatchedMachine, *, with_jobs: bool
) -> list[Text]:
    """The line of a GPU. A reason that does not fit beside it stands below, in full."""
    row = _gpu_row(page, gpu, machine)
    reason = reason_text(gpu.reason)
    if not with_jobs:
        return [
            row.append_text(
                page.styled_text(_describe_reason(gpu, machine, page.width - row.cell_len))
            )
        ]
    if row.cell_len + len(reason) <= page.width:
        return [row.append_text(page.styled_text(reason))]
    return [row, *wrap_text(page, reason, indent="    ")]


def _first_shown(
    gpu: WatchedGpu, machine: WatchedMachine, shown: Sequence[WatchedGpu]
) -> list[WatchedJob]:
    """The jobs whose line stands below this GPU: those that it is the first GPU of."""
    name = gpu.uuid or gpu.gpu
    order = {one.uuid or one.gpu: position for position, one in enumerate(shown)}
    firsts = ((min(j.gpus, key=lambda n: order.get(n, len(order)), default=""), j)
              for j in machine.jobs)  # fmt: skip
    return [job for first, job in firsts if first == name]


def _header(page: Page, machine: WatchedMachine) -> Text:
    titles = (
        _fit(column.title or ("" if page.width >= _WIDE else column.narrow), column.width)
        for column in _visible(page, machine)
    )
    return page.styled_text(" ".join([*titles, "why"]), "dim")


def _visible(page: Page, machine: WatchedMachine) -> list[_Column]:
    """The columns that fit; the first is as wide as the longest name, such as ``0.mig3``."""
    first, *others = _COLUMNS
    longest = max((len(gpu.gpu.removeprefix("gpu")) for gpu in machine.gpus), default=0)
    columns = [first._replace(width=max(first.width, longest)), *others]
    return [column for column in columns if page.width >= column.least]


def _gpu_row(page: Page, gpu: WatchedGpu, machine: WatchedMachine) -> Text:
    cells = {
        "GPU": gpu.gpu.removeprefix("gpu"),
        "": "" if gpu.busy is None else format_percent(gpu.busy),
        "SM": "" if gpu.sm_active is None else format_percent(gpu.sm_active),
        "tensor": "" if gpu.tensor_active is None else format_percent(gpu.tensor_active),
        "memory": _pair(gpu.memory_used_bytes, gpu.memory_bytes, _GIB, "G"),
        "power": _pair(gpu.power_w, gpu.power_limit_w, 1, "W"),
        "since": format_age(gpu.since_s),
    }
    row, style = Text(), STYLES[gpu.state]
    for column in _visible(page, machine):
        if column.title == "state":
            row.append_text(page.styled_text(_fit(gpu.state, column.width), style))
        elif column.title == "busy":
            row.append_text(_bar(page, gpu.busy, column.width, style.rpartition(" ")[2]))
        else:
            row.append_text(page.styled_text(_fit(cells[column.title], column.width)))
        row.append(" ")
    return row


def _describe_reason(gpu: WatchedGpu, machine: WatchedMachine, room: int) -> str:
    """Whose it is and why, in one line; by the name of the cause where the words do not fit."""
    jobs = [job for job in machine.jobs if job.key in gpu.jobs]
    who = next((describe_owner(job) for job in jobs), "")
    text, reason = reason_text(gpu.reason), gpu.reason
    if reason is not None and reason.cause and len(who) + len(text) + 2 > room:
        where = reason.place
        spot = f" {(where.file or '').rpartition('/')[2]}:{where.line}" if where else ""
        short = f"{'' if reason.proven else 'likely '}{reason.cause}{spot}"
        text = min(text, short, key=len)
    return f"{who}: {text}" if who and text else who or text


def _bar(page: Page, share: float | None, width: int, style: str) -> Text:
    cells = 0 if share is None else round(share * width)
    full, rest = ("#", ".") if page.plain else ("█", "░")
    empty = "" if share is None else rest * (width - cells)
    bar = Text().append_text(page.styled_text(full * cells, style))
    return bar.append_text(page.styled_text(empty.ljust(width - cells), "dim"))


def _pair(used: float | None, whole: float | None, unit: float, name: str) -> str:
    if used is None:
        return ""
    return f"{used / unit:.0f}{f'/{whole / unit:.0f}' if whole else ''} {name}"


def _fit(text: str, width: int) -> str:
    return text[:width].ljust(width)


def summarise_states(machine: WatchedMachine, states: Sequence[str]) -> str:
    """Which GPUs, or jobs without one, are in one of these states; empty if none is."""
    named = [f"{gpu.gpu} {gpu.state}" for gpu in machine.gpus if gpu.state in states]
    named += [f"{j.key} {j.state}" for j in machine.jobs if not j.gpus and j.state in states]
    return ", ".join(named)
