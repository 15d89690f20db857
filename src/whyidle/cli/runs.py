"""List the stored runs; delete, pin, unpin or export one.

    whyidle runs                          what the store holds, oldest first
    whyidle runs delete RUN...            remove runs (not pinned ones)
    whyidle runs pin RUN                  protect a run from deletion
    whyidle runs unpin RUN
    whyidle runs export RUN PATH          its diagnosis as JSON; - is standard output

RUN is an id or its beginning, `last`, or `last~1`, the one before; `last` passes over commands
that failed before anything could be seen of them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._next_steps import store_option
from whyidle.cli._options import STDOUT, add_quiet, add_store
from whyidle.cli._store import store_of
from whyidle.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from whyidle.exporters._text_page import Page
    from whyidle.store.entry import Entry, Meta
    from whyidle.store.run_store import Store

_ACTIONS = {"list": (0, 0), "delete": (1, None), "pin": (1, None), "unpin": (1, None)} | {
    "export": (2, 2)
}
"""action -> how many words follow, at least and at most"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", nargs="?", default="list", metavar="ACTION", choices=_ACTIONS)
    parser.add_argument("what", nargs="*", metavar="RUN")
    parser.add_argument("--json", metavar="PATH|-", help="the list as JSON; - is standard output")
    add_quiet(parser)
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    least, most = _ACTIONS[args.action]
    if len(args.what) < least or (most is not None and len(args.what) > most):
        wants = {"list": "", "export": " RUN PATH"}.get(args.action, " RUN...")
        raise UsageError(
            f"`runs {args.action}` was given {len(args.what)} names.",
            hint=f"whyidle runs {args.action}{wants}",
        )
    shelf = store_of(args)
    if args.action == "list":
        return _print_runs(args, shelf)
    if args.action == "export":
        return _export_run(args, shelf)
    for entry in [
        shelf.find_run(name) for name in args.what
    ]:  # all are known before one is touched
        if args.action == "delete":
            shelf.delete_run(entry)
        else:
            shelf.pin_run(entry, pinned=args.action == "pin")
        _output.print_note(args, f"{_DONE[args.action]} {entry.id}")
    return 0


TO_THE_SECOND = len("20260102-030405")
_STATES = {"recording": "not diagnosed"}
_DONE = {"delete": "deleted", "pin": "pinned", "unpin": "unpinned"}


def _print_runs(args: argparse.Namespace, shelf: Store) -> int:
    _output.check_outputs(args)
    entries = shelf.list_runs()
    if args.json:
        import msgspec

        rows = [
            {"path": str(e.path), "bytes": e.bytes, "broken": e.broken, **_entry_metadata(e)}
            for e in entries
        ]
        _output.write_target(
            args.json, msgspec.json.format(msgspec.json.encode(rows), indent=1).decode()
        )
        if args.json == STDOUT:
            return 0
    if not args.quiet:
        sys.stdout.write(_runs_table(entries, shelf, store_option(args.store)))
    return 0


def _entry_metadata(entry: Entry) -> dict[str, object]:
    import msgspec

    return msgspec.structs.asdict(entry.meta) if entry.meta else {"id": entry.id}


def _runs_table(entries: list[Entry], shelf: Store, option: str) -> str:
    from whyidle.exporters._next_steps import next_commands
    from whyidle.exporters._text_page import Page

    page = Page(_output.output_width(), _output.stream_colours())
    if not entries:
        page.write_paragraph(page.styled_text(f"The store {shelf.root} holds no run."))
        next_commands(
            page, [("whyidle explain TRACE", "diagnose a recording, and keep the answer")]
        )
        return page.page_text()
    ids = _short_ids([entry.id for entry in entries])
    page.table(
        ("run", "when", "verdict", "step", "command"),
        [_row(page, entry, name) for entry, name in zip(entries, ids, strict=True)],
    )
    page.write_blank_line()
    total = sum(entry.bytes for entry in entries)
    page.write_paragraph(
        page.styled_text(f"{len(entries)} runs, {total / 1e6:.1f} MB, in {shelf.folder}", "dim")
    )
    steps = [(f"whyidle report last{option}", "the newest again")]
    newest = entries[-1].meta
    if newest is not None and newest.became:
        steps.append((f"whyidle compare last {newest.became}{option}", "what its fixes changed"))
    elif len(entries) > 1:
        steps.append((f"whyidle compare last~1 last{option}", "what changed"))
    next_commands(page, steps)
    return page.page_text()


def _short_ids(ids: list[str]) -> list[str]:
    """Each id to the second, as far as that means one run only: `find` takes the beginning."""
    begun = [name[:TO_THE_SECOND] for name in ids]
    return [
        short if begun.count(short) == 1 else name for name, short in zip(ids, begun, strict=True)
    ]


def _row(page: Page, entry: Entry, name: str) -> list[Text]:
    from whyidle.exporters._number_format import format_seconds

    run, meta = page.styled_text(name, "cyan"), entry.meta
    if meta is None:
        cells = ("", "cannot be read", "", entry.broken or "")
    else:
        cells = (
            _local(meta.created),
            _verdict(entry, meta),
            format_seconds(meta.step_s),
            _run_subject(meta),
        )
    return [run, *(page.styled_text(cell) for cell in cells)]


def _local(created: str) -> str:
    """A moment in this machine's time; as it is written where it is none."""
    try:
        return datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return created


def _verdict(entry: Entry, meta: Meta) -> str:
    from whyidle.exporters._number_format import format_factor

    state = "failed" if entry.failed else _STATES.get(meta.state, meta.state)
    fixed = f", fixed {format_factor(meta.speedup)}×" if meta.speedup is not None else ""
    return f"{state}{fixed}{', pinned' if meta.pinned else ''}"


def _run_subject(meta: Meta) -> str:
    """What was watched, or which recordings were explained."""
    if meta.job or meta.command:
        return meta.job or shlex.join(meta.command or [])
    return meta.sources[0] if len(meta.sources) == 1 else f"{len(meta.sources)} recordings"


def _export_run(args: argparse.Namespace, shelf: Store) -> int:
    from whyidle import catalog

    name, target = args.what
    args.json = target
    _output.check_outputs(args)
    diagnosis = shelf.read_diagnosis(shelf.find_run(name))
    _output.write_target(target, catalog.load_exporter("json").render(diagnosis))
    if target != STDOUT:
        _output.print_note(args, f"wrote {target}")
    return 0
