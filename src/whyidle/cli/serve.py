"""Serve the stored runs and this machine as web pages.

    whyidle serve                            print the address of the pages, which signs you in
    whyidle serve --store A --store B        the runs of several stores, such as a team's disk
    whyidle serve --listen 0.0.0.0:8470      for other machines, too
    whyidle serve login                      print another such address, which works once
    whyidle serve add-token ci               create a token for a program
    whyidle serve tokens                     list the tokens
    whyidle serve revoke-token ci            remove a token and its sessions

Needs the extra: pip install 'whyidle[serve]'.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from contextlib import suppress
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
PRIVATE = ("unix:", "127.", "localhost:", "[::1]:")
"""beginnings of addresses that other machines do not reach"""
ACTIONS = {"start": 0, "login": 0, "add-token": 1, "tokens": 0, "revoke-token": 1}
"""action -> number of words after it"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", nargs="?", default="start", metavar="ACTION", choices=[*ACTIONS])
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a token")
    add_option(parser, "--store", type=Path, action="append")
    parser.add_argument(
        "--state",
        metavar="DIR",
        type=Path,
        help="folder of tokens (default: serve, in the first store)",
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
    parser.add_argument(
        "--open",
        action="store_true",
        help="open the page in a browser, signed in, when the server is ready",
    )
    parser.add_argument(
        "--no-auth",
        action="store_true",
        help="let anyone who can reach the server view command lines, paths, source lines and "
        "user names without a token (formerly --open)",
    )
    _add_access(parser)
    parser.add_argument(
        "--fleet",
        metavar="FILE",
        type=Path,
        help="show the JSON document of a fleet report; it is reloaded when it changes",
    )
    add_quiet(parser)


def _add_access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--proxy",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="address or network of a proxy that authenticates users, or unix: everyone who may "
        "write to the socket; only its headers are trusted, and it must drop those that browsers "
        "send",
    )
    parser.add_argument(
        "--user-header",
        metavar="NAME",
        default="X-Forwarded-User",
        help="header in which the proxy names the user (default: X-Forwarded-User)",
    )


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

    from whyidle.cluster.server.access import AccessList, read_address
    from whyidle.cluster.server.site import ACCESS_FILE

    access = AccessList(settings.state / ACCESS_FILE)
    if args.action == "login":
        address = read_address(settings.state)
        if address is None:
            address = _base_address(settings)
            _output.print_note(
                args, f"No server is running with the state folder {settings.state}."
            )
        print(_login_address(access, address))
    elif args.action == "add-token":
        print(access.add_token(args.names[0]))
        _output.print_note(args, "The token is shown only this once.")
    elif args.action == "tokens":
        for one in access.list_tokens():
            day = datetime.fromtimestamp(one.created).astimezone().strftime("%Y-%m-%d")
            print(f"{one.name:<20} since {day}")
    elif not access.revoke(args.names[0]):
        raise InputError(f"There is no token {args.names[0]!r}.", hint="whyidle serve tokens")
    return 0


def _settings(args: argparse.Namespace) -> SiteSettings:
    from whyidle.cluster.server.proxy_login import UNIX, ProxyLogin, read_networks
    from whyidle.cluster.server.site import STATE_FOLDER, SiteSettings
    from whyidle.store.location import locate_store

    stores = args.store or [locate_store().root]
    proxy = ProxyLogin(
        networks=read_networks(args.proxy),
        has_socket=UNIX in args.proxy,
        user_header=args.user_header,
    )
    return SiteSettings(
        stores=stores,
        state=args.state or stores[0] / STATE_FOLDER,
        listen=args.listen if ":" in args.listen else f"127.0.0.1:{args.listen}",
        names=args.hosts,
        is_open=args.no_auth,
        proxy=proxy,
        fleet=args.fleet,
    )


def _serve(args: argparse.Namespace, settings: SiteSettings) -> int:
    try:
        from whyidle.cluster.server.web_server import WebServer
    except ImportError as error:
        raise MissingExtraError(
            "Starlette, uvicorn or Jinja2 is not installed in whyidle's environment.",
            why=f"{error}.",
            hint="pip install 'whyidle[serve]'",
        ) from error
    from dataclasses import replace

    from whyidle.cluster.server.access import AccessList, hold_address
    from whyidle.cluster.server.site import ACCESS_FILE
    from whyidle.store.run_store import Store

    with suppress(OSError):  # a store that is only read needs no folder
        Store(settings.stores[0]).prepare_folder()
    bound = bind(settings.listen)
    if not settings.listen.startswith("unix:"):  # port 0 is any
        host, port = parse_address(settings.listen)[0], bound.getsockname()[1]
        settings = replace(settings, listen=f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    server = WebServer(settings)
    address = _base_address(settings)
    sign_in = ""
    if args.open or not args.quiet:
        access = AccessList(settings.state / ACCESS_FILE)
        sign_in = _login_address(access, address)
    if not args.quiet:
        _print_start(settings, sign_in)
    if args.open:
        print(
            "whyidle: --open opens a browser; viewing without a token is --no-auth now",
            file=sys.stderr,
        )
        # beside the server, for which it waits; a browser in the terminal would hold it up
        import webbrowser

        threading.Thread(target=webbrowser.open, args=[sign_in], daemon=True).start()
    with bound, hold_address(settings.state, address):
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


def _print_start(settings: SiteSettings, sign_in: str) -> None:
    print(f"whyidle serves {', '.join(map(str, settings.stores))}. Sign in, once:\n    {sign_in}")
    sys.stdout.flush()
    warnings = []
    if not settings.listen.startswith(PRIVATE) and not settings.proxy.networks:
        warnings.append(
            f"{settings.listen} can be reached from other machines, and is not encrypted: put a "
            "proxy with TLS in front of it"
        )
    if any(network.is_loopback for network in settings.proxy.networks):
        warnings.append(
            "--proxy: every user of this machine can reach the loopback address and claim any "
            "name: use --listen unix:PATH --proxy unix if others log in here"
        )
    if settings.is_open:
        warnings.append(
            "--no-auth: anyone who can reach the server can read command lines, paths and user "
            "names"
        )
    for warning in warnings:
        print(f"whyidle: warning: {warning}", file=sys.stderr)


def _base_address(settings: SiteSettings) -> str:
    """The address by which browsers reach the server; empty behind a socket without a name."""
    import socket

    if settings.names and (settings.proxy.networks or settings.listen.startswith("unix:")):
        return f"https://{settings.names[0]}"
    if settings.listen.startswith("unix:"):
        return ""
    host, port = parse_address(settings.listen)
    host = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _login_address(access: AccessList, base: str) -> str:
    from urllib.parse import quote

    code = access.add_code(os.environ.get("USER", "user"))
    return f"{base}/login?code={quote(code)}"
