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
from whyidle.cli._next import where
from whyidle.cli._options import STDOUT, quiet, store
from whyidle.cli._store import store_of
from whyidle.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from whyidle.exporters._page import Page
    from whyidle.store.entry import Entry, Meta
    from whyidle.store.runs import Store

_ACTIONS = {"list": (0, 0), "delete": (1, None), "pin": (1, None), "unpin": (1, None)} | {
    "export": (2, 2)
}
"""action -> how many words follow, at least and at most"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", nargs="?", default="list", metavar="ACTION", choices=_ACTIONS)
    parser.add_argument("what", nargs="*", metavar="RUN")
    parser.add_argument("--json", metavar="PATH|-", help="the list as JSON; - is standard output")
    quiet(parser)
    store(parser)


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
        return _list(args, shelf)
    if args.action == "export":
        return _export(args, shelf)
    for entry in [shelf.find(name) for name in args.what]:  # all are known before one is touched
        if args.action == "delete":
            shelf.delete(entry)
        else:
            shelf.pin(entry, pinned=args.action == "pin")
        _output.note(args, f"{_DONE[args.action]} {entry.id}")
    return 0


TO_THE_SECOND = len("20260102-030405")
_STATES = {"recording": "not diagnosed"}
_DONE = {"delete": "deleted", "pin": "pinned", "unpin": "unpinned"}


def _list(args: argparse.Namespace, shelf: Store) -> int:
    _output.check(args)
    entries = shelf.entries()
    if args.json:
        import msgspec

        rows = [
            {"path": str(e.path), "bytes": e.bytes, "broken": e.broken, **_meta(e)} for e in entries
        ]
        _output.put(args.json, msgspec.json.format(msgspec.json.encode(rows), indent=1).decode())
        if args.json == STDOUT:
            return 0
    if not args.quiet:
        sys.stdout.write(_table(entries, shelf, where(args.store)))
    return 0


def _meta(entry: Entry) -> dict[str, object]:
    import msgspec

    return msgspec.structs.asdict(entry.meta) if entry.meta else {"id": entry.id}


def _table(entries: list[Entry], shelf: Store, option: str) -> str:
    from whyidle.exporters._next import next_commands
    from whyidle.exporters._page import Page

    page = Page(_output.width(), _output.colours())
    if not entries:
        page.line(page.text(f"The store {shelf.root} holds no run."))
        next_commands(
            page, [("whyidle explain TRACE", "diagnose a recording, and keep the answer")]
        )
        return page.done()
    ids = _short_ids([entry.id for entry in entries])
    page.table(
        ("run", "when", "verdict", "step", "command"),
        [_row(page, entry, name) for entry, name in zip(entries, ids, strict=True)],
    )
    page.gap()
    total = sum(entry.bytes for entry in entries)
    page.line(page.text(f"{len(entries)} runs, {total / 1e6:.1f} MB, in {shelf.folder}", "dim"))
    steps = [(f"whyidle report last{option}", "the newest again")]
    newest = entries[-1].meta
    if newest is not None and newest.became:
        steps.append((f"whyidle compare last {newest.became}{option}", "what its fixes changed"))
    elif len(entries) > 1:
        steps.append((f"whyidle compare last~1 last{option}", "what changed"))
    next_commands(page, steps)
    return page.done()


def _short_ids(ids: list[str]) -> list[str]:
    """Each id to the second, as far as that means one run only: `find` takes the beginning."""
    begun = [name[:TO_THE_SECOND] for name in ids]
    return [
        short if begun.count(short) == 1 else name for name, short in zip(ids, begun, strict=True)
    ]


def _row(page: Page, entry: Entry, name: str) -> list[Text]:
    from whyidle.exporters._words import seconds

    run, meta = page.text(name, "cyan"), entry.meta
    if meta is None:
        cells = ("", "cannot be read", "", entry.broken or "")
    else:
        cells = (_local(meta.created), _verdict(entry, meta), seconds(meta.step_s), _of(meta))
    return [run, *(page.text(cell) for cell in cells)]


def _local(created: str) -> str:
    """A moment in this machine's time; as it is written where it is none."""
    try:
        return datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return created


def _verdict(entry: Entry, meta: Meta) -> str:
    from whyidle.exporters._words import factor

    state = "failed" if entry.failed else _STATES.get(meta.state, meta.state)
    fixed = f", fixed {factor(meta.speedup)}×" if meta.speedup is not None else ""
    return f"{state}{fixed}{', pinned' if meta.pinned else ''}"


def _of(meta: Meta) -> str:
    """What was watched, or which recordings were explained."""
    if meta.job or meta.command:
        return meta.job or shlex.join(meta.command or [])
    return meta.sources[0] if len(meta.sources) == 1 else f"{len(meta.sources)} recordings"


def _export(args: argparse.Namespace, shelf: Store) -> int:
    from whyidle import catalog

    name, target = args.what
    args.json = target
    _output.check(args)
    diagnosis = shelf.read(shelf.find(name))
    _output.put(target, catalog.load_exporter("json").render(diagnosis))
    if target != STDOUT:
        _output.note(args, f"wrote {target}")
    return 0
