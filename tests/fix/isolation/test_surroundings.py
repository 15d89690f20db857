"""What a command is told of the world, and what it finds of this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from whyidle.fix.isolation import isolate, network, session


def test_trackers_are_sent_to_the_scratch_folder(tmp_path: Path):
    told = session.tracker_environment(tmp_path, {"WANDB_MODE": "online"}, network=True)
    assert told["WANDB_MODE"] == "offline"
    assert told["MLFLOW_TRACKING_URI"] == f"file://{tmp_path}/mlruns"
    assert not [name for name in told if name.startswith("HF_")]


def test_without_a_network_hubs_are_not_waited_for(tmp_path: Path):
    assert session.tracker_environment(tmp_path, {}, network=False)["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize("open_", [False, True])
def test_ranks_meet_where_there_is_an_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_: bool
):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    with isolate(tmp_path, network=open_) as guard:
        told = guard.environment()
        closed = guard.level == "namespaces" and not open_
    assert told.get("NCCL_SOCKET_IFNAME") == ("lo" if closed else None)
    assert "GLOO_SOCKET_IFNAME" not in told
    assert network.network_environment({"NCCL_SOCKET_IFNAME": "^docker0,lo"}) == {
        "NCCL_SOCKET_IFNAME": "lo"
    }


@pytest.mark.parametrize("mode", ["disabled", "DRYRUN", "offline"])
def test_a_tracker_that_somebody_has_silenced_stays_so(tmp_path: Path, mode: str):
    assert "WANDB_MODE" not in session.tracker_environment(
        tmp_path, {"WANDB_MODE": mode}, network=False
    )


def test_the_machine_s_name_is_known_without_a_name_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    monkeypatch.setattr(network, "own_addresses", lambda: ["10.0.0.7", "fd00::7"])
    place = tmp_path / "hosts"
    place.write_text("127.0.0.1 localhost # node7\n")
    assert network.hosts_file(place) == "127.0.0.1 localhost # node7\n10.0.0.7 node7\n"
    place.write_text("127.0.0.1 localhost\n10.0.0.7 node7.cluster node7\n")
    assert network.hosts_file(place) is None


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2511 1
   1: 00000000:1ED2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2512 1
   2: 0100007F:9C40 0100007F:1388 01 00000000:00000000 00:00000000 00000000  1000        0 2513 1
   3: 0100007F:7149 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2514 1
   4: 0100007F:A303 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2515 1
"""


def test_ports_are_taken_at_which_others_listen_and_no_ranks_meet(tmp_path: Path):
    table = tmp_path / "tcp"
    table.write_text(TABLE)
    tables = (table, tmp_path / "no-such-table")
    meet = {"MASTER_PORT": "29001", "PMIX_SERVER_URI2": "node.1;tcp4://127.0.0.1:41731"}
    assert network.taken_ports({}, tables) == [5000, 7890, 29001, 41731]
    assert network.taken_ports({**meet, "PORT": "5000"}, tables) == [5000, 7890]


def test_proxies_are_set_to_none_and_their_exceptions_left():
    before = {"HTTPS_PROXY": "http://proxy:1", "all_proxy": "socks5://p", "no_proxy": "x", "A": "b"}
    assert network.without_proxy(before) == {"HTTPS_PROXY": "", "all_proxy": ""}


def test_loopback_and_links_are_no_addresses_of_the_machine():
    found = network.own_addresses()
    assert not [each for each in found if each.startswith("127.") or "%" in each or each == "::1"]
    assert len(found) == len(set(found))
