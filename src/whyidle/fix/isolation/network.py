"""Name, addresses and ports of this machine, for processes without a network."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
"""variables that name the network interface of ranks"""
HOSTS = Path("/etc/hosts")
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENS = "0A"
MEETING = re.compile(r"MASTER_PORT|PMI_PORT|PMIX_SERVER_URI\d*")
"""variables with ports of the ranks' rendezvous or of their launcher"""
PROXY = re.compile(r"(http|https|ftp|all|socks|ws|wss|grpc)_proxy", re.IGNORECASE)


def own_addresses() -> list[str]:
    """The machine's addresses. In a trial the loopback device has all of them, so that ranks can
    connect to each other by the machine's name."""
    found = (
        each.address
        for every in psutil.net_if_addrs().values()
        for each in every
        if each.family in (socket.AF_INET, socket.AF_INET6)
    )
    return [each for each in dict.fromkeys(found) if "%" not in each and not _is_loopback(each)]


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def host_names() -> list[str]:
    """Names and addresses of this machine."""
    return [socket.gethostname().lower(), socket.getfqdn().lower(), *own_addresses()]


def hosts_file(path: Path = HOSTS) -> str | None:
    """``/etc/hosts`` with this machine's name added; None if it contains the name."""
    try:
        before = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        before = ""
    known = {word for line in before.splitlines() for word in line.partition("#")[0].split()[1:]}
    name = socket.gethostname()
    if name in known:
        return None
    mine = own_addresses()
    return f"{before.rstrip()}\n{mine[0] if mine else '127.0.0.1'} {name}\n"


def taken_ports(before: Mapping[str, str], tables: Sequence[Path] = TABLES) -> list[int]:
    """Ports of this machine with a listener, such as trackers, tunnels and proxies, without those
    of the ranks' rendezvous in the variables ``before``."""
    meeting = {int(port) for port in _rendezvous_hosts(before)}
    return sorted({port for table in tables for port in _listening_ports(table)} - meeting)


def _rendezvous_hosts(before: Mapping[str, str]) -> Iterator[str]:
    for name, value in before.items():
        if MEETING.fullmatch(name):
            yield from re.findall(r"(?:^|:)(\d+)$", value)


def _listening_ports(table: Path) -> Iterator[int]:
    with suppress(OSError):  # another system
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == LISTENS:
                yield int(local.rpartition(":")[2], 16)


def without_proxy(before: Mapping[str, str]) -> dict[str, str]:
    """Unset proxy variables, so that the actual destinations of a job are visible."""
    return {name: "" for name in before if PROXY.fullmatch(name)}


def network_environment(before: Mapping[str, str]) -> dict[str, str]:
    """Set the ranks' network interface to the loopback device, if the user named another."""
    return {name: "lo" for name in INTERFACES if before.get(name)}
