"""Send stored runs to a server of `whyidle serve`.

    WHYIDLE_TOKEN=... whyidle upload last http://host:8470
    WHYIDLE_TOKEN=... whyidle run --upload http://host:8470 python train.py

RUN is an id from `whyidle runs` or its beginning, `last`, or `last~1`. Only the diagnosis is sent:
no recording, no source beyond the lines that the report shows, and no secret of the command line.
A run that was sent before is not sent again, and its visibility stays the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._options import add_option, add_quiet, add_store, store_of
from whyidle.errors import UsageError, WhyidleError

if TYPE_CHECKING:
    from whyidle.model.diagnosis import Diagnosis


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("runs", nargs="+", metavar="RUN... URL", help="runs, then the server")
    detail = " (owner: the user after whom the token is named; default: set by the server)"
    add_option(parser, "--visible", detail, choices=("owner", "group", "everyone"))
    add_quiet(parser)
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Send the runs."""
    from whyidle.runs.run_upload import upload_run

    *names, url = args.runs
    if not names:
        is_address = "://" in url
        hint = f"whyidle upload {'last' if is_address else url} "
        hint += url if is_address else "http://HOST:8470"
        raise UsageError(f"{'A run' if is_address else 'The server'} is missing.", hint=hint)
    _check_address(url)
    store = store_of(args)
    for entry in [store.find_run(name) for name in names]:
        diagnosis = store.read_diagnosis(entry)
        page = upload_run(entry.id, diagnosis, url, os.environ, visible=args.visible)
        _output.print_note(args, f"sent {entry.id}: {page}")
    return 0


def check_upload(args: argparse.Namespace) -> None:
    """Check before a command runs that its diagnosis can be sent.

    Raises:
        UsageError: there is no token, no address, or the run gets no id.
    """
    if args.no_store:
        raise UsageError("--upload needs a stored run.", hint="Leave --no-store out.")
    _check_address(args.upload)


def send_diagnosis(url: str, diagnosis: Diagnosis) -> None:
    """Send the diagnosis of a command that has ended. A failure is reported and changes nothing:
    the status belongs to the command."""
    from whyidle.runs.run_upload import upload_run

    try:
        page = upload_run(diagnosis.run.id, diagnosis, url, os.environ)
    except WhyidleError as error:
        page = f"not uploaded: {error}"
    print(f"whyidle: {page}", file=sys.stderr)


def _check_address(url: str) -> None:
    from whyidle.runs.run_upload import check_address

    for warning in check_address(url, os.environ):
        print(f"whyidle: warning: {warning}", file=sys.stderr)
