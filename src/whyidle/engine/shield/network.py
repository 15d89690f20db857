"""What a process without a network still has to find: itself, by its name and its addresses."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import psutil

INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
"""variables that name the interface over which ranks meet"""
HOSTS = Path("/etc/hosts")


def addresses() -> list[str]:
    """The machine's own addresses. In a trial they all are on the loopback device, so that ranks
    which meet under the machine's name, as launchers have it, do."""
    found = (
        each.address
        for every in psutil.net_if_addrs().values()
        for each in every
        if each.family in (socket.AF_INET, socket.AF_INET6)
    )
    return [each for each in dict.fromkeys(found) if "%" not in each and not _loopback(each)]


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def names() -> list[str]:
    """What this machine is called, and its addresses: whoever connects to them stays on it."""
    return [socket.gethostname().lower(), socket.getfqdn().lower(), *addresses()]


def hosts(path: Path = HOSTS) -> str | None:
    """``/etc/hosts`` with this machine's name in it, where only a name server would know it."""
    try:
        before = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        before = ""
    known = {word for line in before.splitlines() for word in line.partition("#")[0].split()[1:]}
    name = socket.gethostname()
    if name in known:
        return None
    mine = addresses()
    return f"{before.rstrip()}\n{mine[0] if mine else '127.0.0.1'} {name}\n"


def environment(before: Mapping[str, str]) -> dict[str, str]:
    """What to set where there is the loopback device alone: no rank finds another interface that
    somebody has named."""
    return {name: "lo" for name in INTERFACES if before.get(name)}
