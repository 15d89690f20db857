"""NCCL's log: which transport connects whom, and which of them falls back to a slower path."""

from __future__ import annotations

import pytest

from whyidle.readers._state.nccl_log import (
    describe_transports,
    find_slow_transports,
    read_transports,
)
from whyidle.recordings.explain import explain_paths

HOSTS = ("gpu-a", "gpu-b")


def line(rank: int, said: str) -> str:
    host = HOSTS[rank // 2]
    return f"{host}:{400 + rank}:{900 + rank} [{rank % 2}] NCCL INFO {said}"


def log(*, inside: str = "P2P/CUMEM/read", outside: str = "NET/IB/0/GDRDMA", said=()) -> str:
    """Two nodes of two GPUs, two channels, as NCCL 2.20 writes them, with the job's own output."""
    lines = ["epoch 0", line(0, "NCCL version 2.20.5+cuda12.4"), *(line(0, each) for each in said)]
    lines += [line(r, f"comm 0x55d rank {r} nRanks 4 nNodes 2 localRank {r % 2}") for r in range(4)]
    for channel in range(2):
        for rank, to in ((0, 1), (2, 3)):
            where = f"Channel 0{channel}/0 : {rank}[{rank % 2}] -> {to}[{to % 2}]"
            way = " [send]" if inside.startswith("NET") else ""
            lines.append(line(rank, f"{where}{way} via {inside}"))
            if way:
                lines.append(line(to, f"{where} [receive] via {inside}"))
        for rank, to in ((1, 2), (3, 0)):
            where = f"Channel 0{channel}/0 : {rank}[1] -> {to}[0]"
            lines += [line(rank, f"{where} [send] via {outside}")]
            lines += [line(to, f"{where} [receive] via {outside}")]
    return "\n".join([*lines, line(0, "Connected all rings"), "loss 2.31"])


def slow(tmp_path, **made):
    return find_slow_transports(read_transports(tmp_path / "log", log(**made)))


def test_the_transports_are_told(tmp_path):
    read = read_transports(tmp_path / "log", log())
    assert describe_transports(read) == (
        "NCCL 2.20.5, 4 ranks: P2P within a node (2 pairs of ranks), "
        "NET/IB between nodes (2 pairs of ranks)"
    )
    assert find_slow_transports(read) == []


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (["NCCL_IB_DISABLE set by environment to 1."], "unset NCCL_IB_DISABLE"),
        (["NCCL_IB_DISABLE set by environment to 0.", "NET/IB : No device found."], "/dev/inf"),
        (["Failed to open libibverbs.so[.1]"], "install libibverbs"),
        ([], "NCCL_SOCKET_IFNAME"),
    ],
)
def test_sockets_between_nodes(tmp_path, said, advice):
    ((what, do),) = slow(tmp_path, outside="NET/Socket/0", said=said)
    assert what == "NCCL falls back to sockets between nodes (2 pairs of ranks)"
    assert advice in do


def test_ranks_of_one_node_over_the_network_or_host_memory(tmp_path):
    off = ["NCCL_P2P_DISABLE set by environment to 1.", "NCCL_SHM_DISABLE set by environment to 1"]
    ((what, do),) = slow(tmp_path, inside="NET/Socket/0", said=off)
    assert "of one node talk over the network" in what
    assert do == "unset NCCL_P2P_DISABLE and NCCL_SHM_DISABLE"
    ((what, do),) = slow(tmp_path, inside="SHM/direct/direct", said=off[:1])
    assert "through host memory: P2P is off" in what
    assert do == "unset NCCL_P2P_DISABLE"
    refused = ["P2P is disabled between connected GPUs 1 and 0."]
    assert "topo" in slow(tmp_path, inside="SHM/direct/direct", said=refused)[0][1]
    assert slow(tmp_path, inside="SHM/direct/direct") == []  # as good as it gets without P2P


def test_it_is_explained(tmp_path):
    path = tmp_path / "train.out"
    path.write_text(log(outside="NET/Socket/0"))
    alone = explain_paths([path]).diagnosis
    (finding,) = alone.findings
    assert finding.cause == "nccl-transport-fallback"
    assert "NCCL_SOCKET_IFNAME" in finding.fixes[0].summary
    assert alone.verdict.headline == finding.headline
