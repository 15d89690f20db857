"""List the stored runs; delete, pin, unpin or export one.

    whyidle runs                     list the stored runs, newest first
    whyidle runs delete RUN...       delete runs that are not pinned
    whyidle runs pin RUN...          protect runs from deletion
    whyidle runs unpin RUN...        remove the protection
    whyidle runs export RUN PATH     write the diagnosis as JSON; - is standard output

RUN is an id or its beginning, `last`, or `last~1` (the run before). `last` skips commands that
failed before whyidle could measure anything.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._next_steps import store_option
from whyidle.cli._options import STDOUT, add_outputs, add_store, store_of
from whyidle.errors import UsageError

if TYPE_CHECKING:
    from whyidle.reports._text_page import Page
    from whyidle.store.entry import Entry, Meta
    from whyidle.store.run_store import Store

_ACTIONS = {"list": (0, 0), "delete": (1, None), "pin": (1, None), "unpin": (1, None)} | {
    "export": (2, 2)
}
"""action -> minimum and maximum number of words after it"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        metavar="ACTION",
        choices=[*_ACTIONS],
        help="list (default), delete, pin, unpin or export",
    )
    parser.add_argument("what", nargs="*", metavar="RUN", help="id of a run, or last, or last~1")
    add_outputs(parser, ("--json",), "")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    minimum, maximum = _ACTIONS[args.action]
    if len(args.what) < minimum or (maximum is not None and len(args.what) > maximum):
        usage = {"list": "", "export": " RUN PATH"}.get(args.action, " RUN...")
        raise UsageError(
            f"Wrong number of arguments for `runs {args.action}`: {len(args.what)}.",
            hint=f"whyidle runs {args.action}{usage}",
        )
    store = store_of(args)
    if args.action == "list":
        return _print_runs(args, store)
    if args.action == "export":
        return _export_run(args, store)
    entries = [store.find_run(name) for name in args.what]  # an unknown name changes nothing
    for entry in entries:
        if args.action == "delete":
            store.delete_run(entry)
        else:
            store.pin_run(entry, pinned=args.action == "pin")
        _output.print_note(args, f"{_DONE[args.action]} {entry.id}")
    return 0


TO_THE_SECOND = len("20260102-030405")
_STATES = {"recording": "not diagnosed"}
_DONE = {"delete": "deleted", "pin": "pinned", "unpin": "unpinned"}


def _print_runs(args: argparse.Namespace, store: Store) -> int:
    _output.check_outputs(args)
    entries = store.list_runs()
    rows = [
        {"path": str(e.path), "bytes": e.bytes, "broken": e.broken, **_entry_metadata(e)}
        for e in entries
    ]
    if _output.write_documents(args, json=lambda: rows):
        option = store_option(args.store)
        sys.stdout.write(_runs_table(entries, store, option))
    return 0


def _entry_metadata(entry: Entry) -> dict[str, object]:
    import msgspec

    return msgspec.structs.asdict(entry.meta) if entry.meta else {"id": entry.id}


def _runs_table(entries: list[Entry], store: Store, option: str) -> str:
    from whyidle.reports._next_steps import next_commands
    from whyidle.reports._text_page import Page

    page = Page(_output.output_width(), _output.stream_colours())
    if not entries:
        page.write_paragraph(f"The store {store.root} is empty.")
        next_commands(page, [("whyidle explain TRACE", "diagnose a recording and store it")])
        return page.page_text()
    starts = [entry.id[:TO_THE_SECOND] for entry in entries]
    rows = [
        _cells(entry, start if starts.count(start) == 1 else entry.id)
        for entry, start in reversed(list(zip(entries, starts, strict=True)))
    ]
    _write_table(page, rows)
    page.write_blank_line()
    total = sum(entry.bytes for entry in entries)
    page.write_paragraph(
        f"{len(entries)} runs, {total / 1e6:.1f} MB, in {store.folder}", style="dim"
    )
    steps = [(f"whyidle report last{option}", "show the newest run")]
    newest = entries[-1].meta
    if newest is not None and newest.became:
        steps.append((f"whyidle compare last {newest.became}{option}", "what the fixes changed"))
    elif len(entries) > 1:
        steps.append((f"whyidle compare last~1 last{option}", "what changed"))
    next_commands(page, steps)
    return page.page_text()


def _cells(entry: Entry, name: str) -> tuple[str, ...]:
    from whyidle.reports._number_format import format_seconds

    meta = entry.meta
    if meta is None:
        return name, "", "cannot be read", "", entry.broken or ""
    verdict, step = _verdict_cell(entry, meta), format_seconds(meta.step_s)
    return name, _local_time(meta.created), verdict, step, _run_subject(meta)


def _write_table(page: Page, rows: list[tuple[str, ...]]) -> None:
    """Narrow terminals leave the time out, which the run's name tells, and then the step; the
    middle of a long command is left out."""
    names = ["run", "when", "verdict", "step", "command"]
    columns = [list(column) for column in zip(*rows, strict=True)]
    for name in ("when", "step", ""):
        widths = [max(map(len, [n, *c])) for n, c in zip(names, columns, strict=True)]
        room = page.width - sum(widths[:-1]) - 2 * (len(names) - 1)
        if room >= 16 or not name:  # columns that tell commands apart
            break
        place = names.index(name)
        del names[place], columns[place]
    columns[-1] = [_shorten_middle(text, max(room, 8)) for text in columns[-1]]
    page.table(
        names,
        [
            [page.styled_text(cell, "" if place else "cyan") for place, cell in enumerate(row)]
            for row in zip(*columns, strict=True)
        ],
    )


def _shorten_middle(text: str, room: int) -> str:
    from whyidle.reports._watch_details import short_command

    text = " ".join(text.split())
    text = text if len(text) <= room else short_command(text)
    if len(text) <= room:
        return text
    head = (room - 3) // 2
    return f"{text[:head]}...{text[len(text) - (room - 3 - head) :]}"


def _local_time(created: str) -> str:
    try:
        return datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return created


def _verdict_cell(entry: Entry, meta: Meta) -> str:
    from whyidle.reports._number_format import format_factor

    state = "failed" if entry.has_failed else _STATES.get(meta.state, meta.state)
    fixed = f", fixed {format_factor(meta.speedup)}×" if meta.speedup is not None else ""
    return f"{state}{fixed}{', pinned' if meta.pinned else ''}"


def _run_subject(meta: Meta) -> str:
    if meta.job or meta.command:
        return meta.job or shlex.join(meta.command or [])
    if not meta.sources:
        return "notebook"
    return meta.sources[0] if len(meta.sources) == 1 else f"{len(meta.sources)} recordings"


def _export_run(args: argparse.Namespace, store: Store) -> int:
    from whyidle import catalog

    name, target = args.what
    args.json = target
    _output.check_outputs(args)
    diagnosis = store.read_diagnosis(store.find_run(name))
    _output.write_target(target, catalog.load_exporter("json").render(diagnosis))
    if target != STDOUT:
        _output.print_note(args, f"wrote {target}")
    return 0
