"""What a process without a network still has to find: itself, by its name and its addresses."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
"""variables that name the interface over which ranks meet"""
HOSTS = Path("/etc/hosts")
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENS = "0A"
MEETING = re.compile(r"MASTER_PORT|PMI_PORT|PMIX_SERVER_URI\d*")
"""variables that name where ranks meet, or whoever started them listens"""
PROXY = re.compile(r"(http|https|ftp|all|socks|ws|wss|grpc)_proxy", re.IGNORECASE)


def own_addresses() -> list[str]:
    """The machine's own addresses. In a trial they all are on the loopback device, so that ranks
    which meet under the machine's name, as launchers have it, do."""
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
    """What this machine is called, and its addresses: whoever connects to them stays on it."""
    return [socket.gethostname().lower(), socket.getfqdn().lower(), *own_addresses()]


def hosts_file(path: Path = HOSTS) -> str | None:
    """``/etc/hosts`` with this machine's name in it, where only a name server would know it."""
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
    """Ports of this machine at which somebody listens now: trackers, and tunnels and proxies to
    other machines. Those that ``before``, variables, names for ranks to meet are none."""
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
    """What to set where a proxy may be reached: nobody uses it, and whom a job wants to reach is
    seen."""
    return {name: "" for name in before if PROXY.fullmatch(name)}


def network_environment(before: Mapping[str, str]) -> dict[str, str]:
    """What to set where there is the loopback device alone: no rank finds another interface that
    somebody has named."""
    return {name: "lo" for name in INTERFACES if before.get(name)}
