"""Serve the stored runs, this machine and its alerts as web pages.

    whyidle serve                            pages at http://127.0.0.1:8470; prints an address
                                             that signs you in
    whyidle serve --store A --store B        the runs of several stores, such as a team's disk
    whyidle serve --listen 0.0.0.0:8470      for other machines, too
    whyidle serve login [--role viewer]      print another address that signs in, once
    whyidle serve add-token ci --role uploader     make a token that may send runs
    whyidle serve tokens                     list the tokens
    whyidle serve revoke-token ci            remove a token and its sessions

A viewer reads everything, an uploader may only send runs, an admin may also change things. Needs
the extra: pip install 'whyidle[serve]'.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._options import add_option, add_quiet
from whyidle.errors import InputError, MissingExtraError, OutputError, UsageError

if TYPE_CHECKING:  # the help of all commands needs none of these
    import socket

    from whyidle.cluster.server.access import AccessList
    from whyidle.cluster.server.site import SiteSettings

LISTEN = "127.0.0.1:8470"
ROLES = ("viewer", "uploader", "admin")
ACTIONS = {"start": 0, "login": 0, "add-token": 1, "tokens": 0, "revoke-token": 1}
"""action -> number of words after it"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", nargs="?", default="start", metavar="ACTION", choices=[*ACTIONS])
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a token")
    parser.add_argument("--role", choices=ROLES, help="role of a new token or session")
    add_option(parser, "--store", "; uploads go to the first", type=Path, action="append")
    parser.add_argument(
        "--state",
        metavar="DIR",
        type=Path,
        help="folder of tokens, index and history of alerts (default: serve, in the first store)",
    )
    parser.add_argument(
        "--listen",
        metavar="[ADDRESS:]PORT|unix:PATH",
        default=LISTEN,
        help=f"where to listen (default: {LISTEN})",
    )
    parser.add_argument(
        "--name",
        metavar="HOST",
        action="append",
        default=[],
        dest="hosts",
        help="another host name by which browsers reach the server",
    )
    parser.add_argument("--public", action="store_true", help="let anyone view without a token")
    add_option(parser, "--alerts", " (default: the shipped rules, and no route)", type=Path)
    parser.add_argument(
        "--fleet",
        metavar="FILE",
        type=Path,
        help="show a document that a fleet report wrote as JSON; it is read again when it changes",
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="make the index of runs again from the stores"
    )
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until it is interrupted, or do the action."""
    if len(args.names) != ACTIONS[args.action]:
        raise UsageError(
            f"Wrong number of arguments for `serve {args.action}`: {len(args.names)}.",
            hint=f"whyidle serve {args.action}{' NAME' * ACTIONS[args.action]}",
        )
    settings = _settings(args)
    if args.action == "start":
        return _serve(args, settings)
    from datetime import datetime

    from whyidle.cluster.server.access import AccessList
    from whyidle.cluster.server.site import ACCESS_FILE

    access = AccessList(settings.state / ACCESS_FILE)
    if args.action == "login":
        print(_login_address(access, settings.listen, args.role or "admin"))
    elif args.action == "add-token":
        print(access.add_token(args.names[0], args.role or "viewer"))
        _output.print_note(args, "This is the only time that the token is shown.")
    elif args.action == "tokens":
        for one in access.list_tokens():
            day = datetime.fromtimestamp(one.created).astimezone().strftime("%Y-%m-%d")
            print(f"{one.name:<20} {one.role:<9} since {day}")
    elif not access.revoke(args.names[0]):
        raise InputError(f"There is no token {args.names[0]!r}.", hint="whyidle serve tokens")
    return 0


def _settings(args: argparse.Namespace) -> SiteSettings:
    from whyidle.cluster.server.site import STATE_FOLDER, SiteSettings
    from whyidle.machine.alerts.rule_file import AlertSettings, read_settings
    from whyidle.store.location import locate_store

    stores = args.store or [locate_store().root]
    return SiteSettings(
        stores=stores,
        state=args.state or stores[0] / STATE_FOLDER,
        listen=args.listen if ":" in args.listen else f"127.0.0.1:{args.listen}",
        names=args.hosts,
        is_open=args.public,
        rebuild=args.rebuild,
        alerts=read_settings(args.alerts) if args.alerts else AlertSettings(),
        fleet=args.fleet,
    )


def _serve(args: argparse.Namespace, settings: SiteSettings) -> int:
    try:
        from whyidle.cluster.server.web_server import WebServer
    except ImportError as error:
        raise MissingExtraError(
            "Starlette, uvicorn or Jinja2 is not installed beside whyidle.",
            why=f"{error}.",
            hint="pip install 'whyidle[serve]'",
        ) from error
    bound = bind(settings.listen)
    server = WebServer(settings)
    if not args.quiet:
        _print_start(args, settings)
    server.run(sockets=[bound])
    return 0


def bind(where: str) -> socket.socket:
    """A socket that listens at an address.

    Raises:
        UsageError: it is no address.
        OutputError: it cannot be listened at.
    """
    import socket

    if where.startswith("unix:"):
        family, address = socket.AF_UNIX, where.removeprefix("unix:")
    else:
        host, port = parse_address(where)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = (host, port)  # type: ignore[assignment]
    # named, since asyncio sets TCP_NODELAY only where it is: answers would wait 40 ms without
    protocol = 0 if family == socket.AF_UNIX else socket.IPPROTO_TCP
    bound = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        if family != socket.AF_UNIX:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        elif Path(address).is_socket():  # of a server that was killed
            Path(address).unlink()
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise OutputError(
            f"Cannot listen at {where}.",
            why=f"{error.strerror or error}.",
            hint="Choose another with --listen.",
        ) from error
    return bound


def parse_address(where: str) -> tuple[str, int]:
    """The address and port in ``[ADDRESS:]PORT``. Raises UsageError."""
    host, colon, port = where.rpartition(":")
    host = host.strip("[]") if colon else "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535 or not host:
        raise UsageError(f"{where!r} is not [ADDRESS:]PORT.", hint=f"--listen {LISTEN}")
    return host, int(port)


def _is_private(where: str) -> bool:
    import ipaddress

    if where.startswith("unix:"):
        return True
    host, _ = parse_address(where)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _print_start(args: argparse.Namespace, settings: SiteSettings) -> None:
    from whyidle.cluster.server.access import AccessList
    from whyidle.cluster.server.site import ACCESS_FILE

    access = AccessList(settings.state / ACCESS_FILE)
    address = _login_address(access, settings.listen, args.role or "admin")
    print(f"whyidle serves {', '.join(map(str, settings.stores))}. Sign in, once:\n    {address}")
    if not _is_private(settings.listen):
        print(
            f"whyidle: warning: {settings.listen} can be reached from other machines, and is not "
            "encrypted: put a proxy with TLS in front of it",
            file=sys.stderr,
        )
    if settings.is_open:
        print(
            "whyidle: warning: --public: anyone who reaches it reads command lines, paths and user "
            "names",
            file=sys.stderr,
        )
    sys.stdout.flush()


def _login_address(access: AccessList, listen: str, role: str) -> str:
    import socket
    from urllib.parse import quote

    code = access.add_code(f"{os.environ.get('USER', 'user')}-login", role)  # type: ignore[arg-type]
    if listen.startswith("unix:"):
        return f"/login?code={code}"
    host, port = parse_address(listen)
    host = socket.gethostname() if host in ("0.0.0.0", "::") else host
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/login?code={quote(code)}"
