"""Pods of Kubernetes.

The control group names the pod's UID and the container's id, in the spelling of the cgroupfs and of
the systemd driver. Namespace and name come from the folders of the kubelet's logs, which are named
``NAMESPACE_POD_UID``, and inside the pod from the host name. Which GPUs a pod was given, though it
has no process on them, the kubelet tells on its pod-resources socket.

The socket speaks gRPC. One call without arguments needs so little of HTTP/2 (RFC 9113) that it is
made here, without a package: the headers are sent literally, and those of the answer are not read.
The fields are those of kubelet's ``podresources/v1/api.proto``. Only root can open the socket.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from whyidle.model.documents.watch_document import Tenant
from whyidle.model.live.tenancy import PATIENCE_S, ProcessIdentity, Reservation
from whyidle.model.protobuf import BYTES, ProtobufError, read_fields

RANK = 20
_POD = re.compile(
    r"kubepods[^\n]*?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
)
_CONTAINER = re.compile(r"([0-9a-f]{64})")
LOGS = "var/log/pods"
_NAMESPACE = "var/run/secrets/kubernetes.io/serviceaccount/namespace"
SOCKET: Final = "var/lib/kubelet/pod-resources/kubelet.sock"
MOST_BYTES: Final = 16 << 20
"""of an answer: what the kubelet's own clients accept"""
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_HEADER: Final = (
    (":method", "POST"), (":scheme", "http"), (":path", "/v1.PodResourcesLister/List"),
    (":authority", "localhost"), ("content-type", "application/grpc"), ("te", "trailers"),
)  # fmt: skip


def identify(process: ProcessIdentity) -> Tenant | None:
    """The pod, with the labels of dcgm-exporter: ``namespace``, ``pod`` and ``container``."""
    found = _POD.search(process.cgroup)
    environ = process.environ or {}
    if found is None:
        return _from_inside(process) if "KUBERNETES_SERVICE_HOST" in environ else None
    uid = found[1].replace("_", "-")
    labels = {"pod_uid": uid, **_pod_names(process.root, uid)}
    line = process.cgroup[found.end() :].partition("\n")[0]
    if container := _CONTAINER.search(line):
        labels["container"] = container[1][:12]
    return Tenant(kind="kubernetes", job=labels.get("pod", uid), labels=labels)


def _pod_names(root: Path, uid: str) -> dict[str, str]:
    try:
        folder = next((root / LOGS).glob(f"*_{uid}"), None)
    except OSError:
        folder = None
    parts = folder.name.split("_") if folder else []
    return {"namespace": parts[0], "pod": parts[1]} if len(parts) == 3 else {}


def _from_inside(process: ProcessIdentity) -> Tenant | None:
    pod = (process.environ or {}).get("HOSTNAME")
    if not pod:
        return None
    labels = {"pod": pod}
    with suppress(OSError):  # the pod has no service account
        labels["namespace"] = (process.root / _NAMESPACE).read_text(encoding="utf-8").strip()
    return Tenant(kind="kubernetes", job=pod, labels=labels)


def reserve(root: Path = Path("/")) -> list[Reservation] | None:
    """GPUs of this machine that the kubelet has given to pods; None if it does not answer. A slice
    of a shared GPU is named by its UUID and a number (``GPU-...::3``)."""
    devices = list_devices(root / SOCKET)
    if devices is None:
        return None
    held: dict[tuple[str, str], list[str]] = {}
    for one in devices:
        if one.device.startswith(("GPU-", "MIG-")):
            held.setdefault((one.namespace, one.pod), []).append(one.device.partition("::")[0])
    return [
        Reservation(
            kind="kubernetes", job=pod, user=None, devices=tuple(dict.fromkeys(names)),
            labels={"namespace": namespace, "pod": pod},
        )
        for (namespace, pod), names in held.items()
    ]  # fmt: skip


class PodDevice(NamedTuple):
    """A device that a container of a pod holds. ``resource`` is such as ``nvidia.com/gpu``; the id
    is the device plug-in's, of NVIDIA's the UUID of a GPU or MIG slice."""

    namespace: str
    pod: str
    container: str
    resource: str
    device: str


def list_devices(path: Path) -> list[PodDevice] | None:
    """The devices of all pods of this machine; None where the kubelet does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(PATIENCE_S)
            link.connect(str(path))
            answer = _call(link)
        return list(_read_pods(answer)) if answer is not None else None
    except (OSError, ProtobufError, UnicodeDecodeError):
        return None


def _call(link: socket.socket) -> bytes | None:
    """The message that answers an empty one; None if the call failed."""
    header = b"".join(_literal(name, value) for name, value in _HEADER)
    room = struct.pack(">I", MOST_BYTES)
    link.sendall(
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"\0\4" + room)  # SETTINGS_INITIAL_WINDOW_SIZE
        + _frame(_WINDOW, 0, 0, room)
        + _frame(_HEADERS, _END_HEADERS, 1, header)
        + _frame(_DATA, _END_STREAM, 1, b"\0\0\0\0\0")  # a message of no bytes
    )
    body = b""
    while len(body) <= MOST_BYTES:
        kind, flags, stream, content = _read_frame(link)
        if kind == _SETTINGS and not flags & _ACK:
            link.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            link.sendall(_frame(_PING, _ACK, 0, content))
        elif kind in (_RESET, _GO_AWAY):
            return None
        elif stream == 1 and kind == _DATA:
            body += content[1 : len(content) - content[0]] if flags & _PADDED else content
        if stream == 1 and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            break
    compressed, size = struct.unpack(">BI", body[:5]) if len(body) >= 5 else (1, 0)
    return None if compressed or len(body) < 5 + size else body[5 : 5 + size]


def _literal(name: str, value: str) -> bytes:
    """A header that is not indexed, in plain text (RFC 7541, 6.2.2)."""
    texts = (name.encode(), value.encode())
    return b"\0" + b"".join(bytes([len(text)]) + text for text in texts)


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _read_frame(link: socket.socket) -> tuple[int, int, int, bytes]:
    head = _read_exactly(link, 9)
    kind, flags, stream = struct.unpack(">BBI", head[3:])
    return kind, flags, stream & 0x7FFFFFFF, _read_exactly(link, int.from_bytes(head[:3], "big"))


def _read_exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the kubelet closed its socket")
        data += part
    return data


def _read_pods(answer: bytes) -> Iterator[PodDevice]:
    """PodResources: name 1, namespace 2, containers 3 (name 1, devices 2: resource 1, ids 2)."""
    for pod in _list_bytes(answer, 1):
        name, namespace = _read_text(pod, 1), _read_text(pod, 2)
        for container in _list_bytes(pod, 3):
            inside = _read_text(container, 1)
            for devices in _list_bytes(container, 2):
                resource = _read_text(devices, 1)
                for device in _list_bytes(devices, 2):
                    yield PodDevice(namespace, name, inside, resource, device.decode())


def _list_bytes(message: bytes, number: int) -> list[bytes]:
    fields = read_fields(message, 0, len(message))
    return [message[at:end] for field, wire, at, end in fields if (field, wire) == (number, BYTES)]


def _read_text(message: bytes, number: int) -> str:
    return next(iter(_list_bytes(message, number)), b"").decode()
