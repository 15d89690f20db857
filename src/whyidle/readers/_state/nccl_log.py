"""Logs of NCCL (``NCCL_DEBUG=INFO``, or a job's output with it): which transport connects whom."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from whyidle.model.state_records import TransportLog

MARK: Final = re.compile(rb"NCCL INFO ")
P2P_REFUSED: Final = "P2P is disabled between connected GPUs"
NO_VERBS: Final = "Failed to open libibverbs"
NO_ADAPTER: Final = "NET/IB : No device found"
_LINE = re.compile(r"([\w.-]+):\d+:\d+ \[\d+\] NCCL (?:INFO|WARN) (.*)")
_LINK = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : (\d+)(?:\[\w+\])? -> (\d+)(?:\[\w+\])?"
    r"(?: \[(send|receive)\])? via (NET/[^/]+|\w+)"
)
_SETTING = re.compile(r"(NCCL_\w+) set by environment to (\S+?)\.?$", re.MULTILINE)
_VERSION = re.compile(r"NCCL version (\d[\w.]*)")


def read_transports(path: Path, text: str) -> TransportLog:
    """Interpret the lines that NCCL 2.4 to 2.27 writes; others are left out."""
    links: dict[tuple[str, str], str] = {}
    hosts_of: dict[str, set[str]] = defaultdict(set)
    for host, said in _LINE.findall(text):
        if link := _LINK.search(said):
            first, second, way, via = link.groups()
            links[first, second] = via
            hosts_of[second if way == "receive" else first].add(host)
    within, between = Counter[str](), Counter[str]()
    for pair, via in links.items():
        hosts = [hosts_of[rank] for rank in pair]
        local = not via.startswith("NET") or (hosts[0] == hosts[1] and len(hosts[0]) == 1)
        (within if local else between)[via] += 1
    version = _VERSION.search(text)
    return TransportLog(
        path=str(path),
        version=version[1] if version else "",
        ranks=len(hosts_of),
        within=within,
        between=between,
        settings=dict(_SETTING.findall(text)),
        said=frozenset(each for each in (P2P_REFUSED, NO_VERBS, NO_ADAPTER) if each in text),
    )


def describe_transports(log: TransportLog) -> str:
    """The transports in one sentence."""
    parts = [
        f"{name} {where} ({count} pairs of ranks)"
        for where, pairs in (("within a node", log.within), ("between nodes", log.between))
        for name, count in sorted(pairs.items())
    ]
    used = ", ".join(parts) or "no connection was logged"
    return f"NCCL {log.version}".strip() + f", {log.ranks} ranks: {used}"


def find_slow_transports(log: TransportLog) -> list[tuple[str, str]]:
    """The transports that fall back to a slower path, each with what to do about it."""
    found = []
    off = _advise_unset(log, "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
    if network := sum(count for name, count in log.within.items() if name.startswith("NET")):
        what = f"{network} pairs of ranks of one node talk over the network, not P2P or memory"
        found.append((what, off or "start containers with --ipc=host and all GPUs visible"))
    elif "SHM" in log.within and (P2P_REFUSED in log.said or "P2P" in off):
        what = (
            f"{log.within['SHM']} pairs of ranks of one node talk through host memory: P2P is off"
        )
        found.append((what, off or "see why with nvidia-smi topo -p2p r: ACS or an IOMMU, or GPUs "
                      "without P2P"))  # fmt: skip
    if sockets := log.between.get("NET/Socket"):
        why = _advise_unset(log, "NCCL_IB_DISABLE", "NCCL_NET")
        if not why and NO_VERBS in log.said:
            why = "install libibverbs (rdma-core) where the job runs: NCCL could not open it"
        elif not why and NO_ADAPTER in log.said:
            why = (
                "NCCL found no adapter: if the nodes have InfiniBand, RoCE or EFA, give containers "
                "/dev/infiniband and the network's plug-in; else choose the fastest interface with "
                "NCCL_SOCKET_IFNAME"
            )
        what = f"NCCL falls back to sockets between nodes ({sockets} pairs of ranks)"
        found.append((what, why or "choose the fastest interface with NCCL_SOCKET_IFNAME"))
    return found


def _advise_unset(log: TransportLog, *names: str) -> str:
    """Advice to unset those variables that switch something off."""
    found = [name for name in names if log.settings.get(name, "0") not in ("0", "IB")]
    return f"unset {' and '.join(found)}" if found else ""
