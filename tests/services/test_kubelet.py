"""Pods' devices from a real gRPC server on a socket, as the kubelet serves them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from whyidle.machine.tenants import kubernetes

# container, field: (number, label, type), as in kubelet's podresources/v1/api.proto
_TEXT, _MESSAGE, _ONE, _MANY = 9, 11, 1, 3
MESSAGES = {
    "Topology": {},
    "ContainerDevices": {
        "resource_name": (1, _ONE, _TEXT), "device_ids": (2, _MANY, _TEXT),
        "topology": (3, _ONE, "Topology"),
    },
    "ContainerResources": {"name": (1, _ONE, _TEXT), "devices": (2, _MANY, "ContainerDevices")},
    "PodResources": {
        "name": (1, _ONE, _TEXT), "namespace": (2, _ONE, _TEXT),
        "containers": (3, _MANY, "ContainerResources"),
    },
    "ListPodResourcesResponse": {"pod_resources": (1, _MANY, "PodResources")},
}  # fmt: skip


def answer_of(pods: int) -> bytes:
    descriptors = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory  # noqa: PLC0415

    file = descriptors.FileDescriptorProto(name="api.proto", package="v1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, label, kind) in fields.items():
            one = message.field.add(name=field, number=number, label=label)
            one.type = kind if isinstance(kind, int) else _MESSAGE
            if isinstance(kind, str):
                one.type_name = f".v1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("v1.ListPodResourcesResponse")
    response = message_factory.GetMessageClass(found)()
    for number in range(pods):
        pod = response.pod_resources.add(name=f"train-{number}", namespace="alice")
        devices = pod.containers.add(name="main").devices
        held = devices.add(resource_name="nvidia.com/gpu", device_ids=[f"GPU-{number}::0"])
        held.topology.SetInParent()
        devices.add(resource_name="rdma/hca", device_ids=["mlx5_0"])
    return response.SerializeToString()


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a short name: that of a socket has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="kubelet") as folder:
        yield Path(folder)


@pytest.fixture
def kubelet(root: Path) -> Iterator[SimpleNamespace]:
    """A server whose answer a test may change; it stands where the kubelet's socket is."""
    grpc = pytest.importorskip("grpc")
    served = SimpleNamespace(root=root, answer=answer_of(2), fails=False)

    def list_pods(request: bytes, context) -> bytes:
        assert request == b""
        if served.fails:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not ready")
        return served.answer

    handler = grpc.unary_unary_rpc_method_handler(list_pods)
    service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
    socket = root / kubernetes.SOCKET
    socket.parent.mkdir(parents=True)
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, handlers=[service])
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        yield served
        server.stop(None).wait()


def test_pods_and_their_gpus(kubelet: SimpleNamespace):
    devices = kubernetes.list_devices(kubelet.root / kubernetes.SOCKET)
    assert len(devices) == 4
    assert devices[0] == ("alice", "train-0", "main", "nvidia.com/gpu", "GPU-0::0")
    held = kubernetes.reserve(kubelet.root)
    assert [one.devices for one in held] == [("GPU-0",), ("GPU-1",)]
    assert held[0].holder == "pod train-0"
    assert held[0].labels == {"namespace": "alice", "pod": "train-0"}


def test_a_large_answer_comes_in_many_frames(kubelet: SimpleNamespace):
    kubelet.answer = answer_of(5000)
    assert len(kubelet.answer) > 200_000  # beyond HTTP/2's first window of 64 KiB
    assert len(kubernetes.reserve(kubelet.root)) == 5000


def test_a_kubelet_without_pods_is_not_one_that_fails(kubelet: SimpleNamespace):
    kubelet.answer = b""
    assert kubernetes.reserve(kubelet.root) == []
    kubelet.fails = True
    assert kubernetes.reserve(kubelet.root) is None
