"""Serve the stored runs and this machine as web pages.

    whyidle serve                            print the address of the pages, with a token
    whyidle serve --store A --store B        the runs of several stores, such as a team's disk
    whyidle serve --listen 0.0.0.0:8470      for other machines, too
    whyidle serve --new-token                replace the token: everyone signs in again

Needs the extra: pip install 'whyidle[serve]'.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli._options import add_option, add_quiet
from whyidle.errors import MissingExtraError, OutputError, UsageError

if TYPE_CHECKING:  # the help of all commands does not need it
    import socket

LISTEN = "127.0.0.1:8470"
PRIVATE = ("unix:", "127.", "localhost:", "[::1]:")
"""beginnings of addresses that other machines do not reach"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_option(parser, "--store", type=Path, action="append")
    parser.add_argument(
        "--state",
        metavar="DIR",
        type=Path,
        help="folder of the token (default: serve, in the first store)",
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
        "user names without a token, for example behind a proxy that signs people in",
    )
    parser.add_argument(
        "--new-token",
        action="store_true",
        help="replace the token; browsers and programs must sign in again",
    )
    parser.add_argument(
        "--fleet",
        metavar="FILE",
        type=Path,
        help="show the JSON document of a fleet report; it is reloaded when it changes",
    )
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until it is interrupted."""
    try:
        from whyidle.cluster.server.web_server import WebServer
    except ImportError as error:
        raise MissingExtraError(
            "Starlette, uvicorn or Jinja2 is not installed in whyidle's environment.",
            why=f"{error}.",
            hint="pip install 'whyidle[serve]'",
        ) from error
    from whyidle.cluster.server.access import STATE_FOLDER, read_token
    from whyidle.cluster.server.site import SiteSettings
    from whyidle.store.location import locate_store
    from whyidle.store.run_store import Store

    stores = args.store or [locate_store().root]
    with suppress(OSError):  # a store that is only read needs no folder
        Store(stores[0]).prepare_folder()
    with bind(args.listen) as bound:
        token = None
        if not args.no_auth:
            token = read_token(args.state or stores[0] / STATE_FOLDER, is_new=args.new_token)
        server = WebServer(
            SiteSettings(stores=stores, token=token, names=args.name, fleet=args.fleet)
        )
        address = _address(bound, args.name) + (f"/?token={token}" if token else "")
        if not args.quiet:
            print(f"whyidle serves {', '.join(map(str, stores))} at\n    {address}", flush=True)
            _warn(args)
        if args.open:
            # beside the server, for which it waits; a browser in the terminal would hold it up
            import webbrowser

            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
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


def _warn(args: argparse.Namespace) -> None:
    if not args.listen.startswith(PRIVATE) and ":" in args.listen:
        print(
            f"whyidle: warning: {args.listen} can be reached from other machines, and is not "
            "encrypted: put a proxy with TLS in front of it",
            file=sys.stderr,
        )
    if args.no_auth:
        print(
            "whyidle: warning: --no-auth: anyone who can reach the server can read command lines, "
            "paths and user names",
            file=sys.stderr,
        )


def _address(bound: socket.socket, names: Sequence[str]) -> str:
    """The address by which browsers reach the server: behind a socket, that of its proxy."""
    import socket

    if bound.family == socket.AF_UNIX:
        return f"https://{names[0] if names else socket.gethostname()}"
    host, port = bound.getsockname()[:2]  # port 0 is any
    host = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
