"""Write each user's own page of the report, and mail it with --mail.

    whyidle fleet digest --ledger slurm --meter prometheus:http://prom:9090 --user alice
    whyidle fleet digest --ledger slurm --meter prometheus:http://prom:9090 --mail mail.toml

Without --mail the pages are printed. The file of --mail has `host`, `sender`, and `domain` (alice
is alice@DOMAIN) or a table `addresses`; and may have `port` (25), `starttls`, `user`, `password`
(`$NAME` is an environment variable) and `exempt`, a list of users who get no mail.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._fleet.options import add_fleet_options, make_prices, now_ms, open_fleet
from whyidle.cli._options import add_option
from whyidle.errors import InputError, OutputError, UsageError

if TYPE_CHECKING:
    from email.message import EmailMessage

    from whyidle.model.documents.fleet import FleetReport, MailSettings

PATIENCE_S = 30


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_fleet_options(parser)
    add_option(parser, "--user")
    parser.add_argument(
        "--mail", metavar="FILE", type=Path, help="send the pages as the file configures"
    )


def run(args: argparse.Namespace) -> int:
    """Read, divide, and print or send."""
    from whyidle.cluster.report.report import make_report
    from whyidle.reports._fleet_digest import render_digest

    settings = read_settings(args.mail) if args.mail else None
    with open_fleet(args) as fleet:
        report = make_report(fleet, by="user", prices=make_prices(args), now_ms=now_ms(), jobs=None)
    users = select_users(report, args.user, settings.exempt if settings else [])
    pages = {user: render_digest(report, user) for user in users}
    if settings:
        sent = send_pages(settings, pages, report)
        _output.print_note(args, f"sent {sent} mail{'' if sent == 1 else 's'}")
    else:
        _output.print_text("\n".join(pages.values()))
    return 0


def select_users(report: FleetReport, user: str | None, exempt: list[str]) -> list[str]:
    """The users who get a page: known ones who are not exempt."""
    known = [row.key for row in report.groups["user"] if row.key != "?"]
    if user is not None and user not in known:
        raise UsageError(f"{user} held no GPU in the window.")
    return [name for name in known if name not in exempt and user in (None, name)]


def read_settings(path: Path) -> MailSettings:
    """The settings of mails.

    Raises:
        InputError: the file cannot be read, or lacks something.
    """
    import msgspec

    from whyidle.model.documents.fleet import MailSettings

    try:
        settings = msgspec.toml.decode(path.read_bytes(), type=MailSettings)
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot read {path}.", why=f"{error}.") from error
    if settings.domain is None and not settings.addresses:
        raise InputError(f"{path} has no domain and no addresses.", hint="whyidle fleet digest -h")
    return settings


def send_pages(settings: MailSettings, pages: Mapping[str, str], report: FleetReport) -> int:
    """Send one mail to each user with an address; return their number.

    Raises:
        OutputError: the server refuses; the mails before were sent.
    """
    import smtplib

    sent = 0
    try:
        with smtplib.SMTP(settings.host, settings.port, timeout=PATIENCE_S) as server:
            if settings.starttls:
                server.starttls()
            if settings.user:
                server.login(settings.user, _reveal(settings.password))
            for user, page in pages.items():
                address = _address(settings, user)
                if address is not None:
                    server.send_message(_write_mail(settings.sender, address, page, report))
                    sent += 1
    except (OSError, smtplib.SMTPException, ValueError) as error:
        text = f"{sent} of {len(pages)} mails were sent."
        raise OutputError(text, why=f"{error}.", hint="Check the file of --mail.") from error
    return sent


def _reveal(password: str) -> str:
    return os.environ.get(password[1:], "") if password.startswith("$") else password


def _address(settings: MailSettings, user: str) -> str | None:
    known = settings.addresses.get(user)
    return known or (f"{user}@{settings.domain}" if settings.domain else None)


def _write_mail(sender: str, address: str, page: str, report: FleetReport) -> EmailMessage:
    from email.message import EmailMessage
    from email.policy import SMTP
    from email.utils import formatdate, make_msgid, parseaddr

    message = EmailMessage(policy=SMTP)
    message["Subject"] = f"Your GPU-hours, {report.since[:10]} to {report.until[:10]}"
    message["From"], message["To"] = sender, address
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2].rstrip(">") or None)
    message["List-Unsubscribe"] = f"<mailto:{parseaddr(sender)[1]}?subject=unsubscribe>"
    message.set_content(page)
    return message
