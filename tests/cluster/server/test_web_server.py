"""Connections whose request does not come hold no place."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from whyidle.cluster.server import web_server
from whyidle.cluster.server.site import SiteSettings
from whyidle.cluster.server.web_server import WebServer
from whyidle.store.run_store import Store


@pytest.fixture
def address(store: Store, tmp_path, monkeypatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(web_server, "HEADER_S", 1.0)
    monkeypatch.setattr(web_server, "BODY_S", 2.0)
    server = WebServer(SiteSettings(stores=[store.root], state=tmp_path / "state"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join(10.0)
    listener.close()


def is_cut_off(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_head_and_a_body_have_a_deadline(address: tuple[str, int]):
    head = socket.create_connection(address)
    head.sendall(b"GET / HTTP/1.1\r\nHost:")
    body = socket.create_connection(address)
    body.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nt")
    begin = time.monotonic()
    assert is_cut_off(head, 5.0)
    assert is_cut_off(body, 5.0)
    assert time.monotonic() - begin > 1.5
    head.close()
    body.close()


def test_the_oldest_of_too_many_half_open_requests_is_cut_off(address: tuple[str, int]):
    waiting = []
    for _ in range(web_server.MOST_WAITING + 5):
        one = socket.create_connection(address)
        one.sendall(b"GET / HTTP/1.1\r\nHost:")
        waiting.append(one)
    url = f"http://127.0.0.1:{address[1]}/healthz"
    assert httpx.get(url).status_code == 200
    assert is_cut_off(waiting[0], 0.5)
    for one in waiting:
        one.close()


def test_half_open_requests_of_many_addresses_leave_room_for_others(address: tuple[str, int]):
    waiting = []
    for number in range(1100):  # twelve addresses, each within its own bound
        source = (f"127.0.0.{2 + number % 12}", 0)
        one = socket.create_connection(address, source_address=source)
        one.sendall(b"GET / HTTP/1.1\r\nHost:")
        waiting.append(one)
    url = f"http://127.0.0.1:{address[1]}/healthz"
    assert [httpx.get(url).status_code for _ in range(5)] == [200] * 5
    for one in waiting:
        one.close()
