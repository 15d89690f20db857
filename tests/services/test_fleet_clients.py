"""lightkube against a server with the answers of Kubernetes' API."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fleet_contracts import check_ledger
from whyidle.cluster.ledgers import kubernetes
from whyidle.errors import InputError
from whyidle.model.fleet_rows import Window

ALL = Window(0, 4_000_000_000_000)


def pod(name: str, resource: str, count: str, phase: str = "Running") -> dict:
    return {
        "metadata": {
            "name": name, "namespace": "team", "uid": name,
            "creationTimestamp": "2026-11-26T01:00:00Z",
        },
        "spec": {
            "nodeName": "gpu-node-1",
            "containers": [
                {
                    "name": "main",
                    "resources": {"limits": {resource: count, "cpu": "2", "memory": "8Gi"}},
                }
            ],
        },
        "status": {"phase": phase, "startTime": "2026-11-26T01:00:05Z"},
    }  # fmt: skip


NODES = {
    "kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "193"},
    "items": [
        {
            "metadata": {
                "name": "gpu-node-1",
                "labels": {
                    "nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "1",
                    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
                },
            },
            "spec": {}, "status": {"capacity": {"cpu": "64"}},
        }
    ],
}  # fmt: skip
PODS = {
    "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "193"},
    "items": [
        pod("whole", "nvidia.com/gpu", "2"), pod("mig", "nvidia.com/mig-1g.10gb", "1"),
        pod("shared", "nvidia.com/gpu.shared", "1"), pod("waits", "nvidia.com/gpu", "1", "Pending"),
        pod("cpu", "example.com/fpga", "1"),
    ],
}  # fmt: skip


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An API server that answers reads and refuses the rest, as the read-only role does."""
    pytest.importorskip("lightkube")
    asked: list[tuple[str, str]] = []
    refused = {"code": 0}

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            path = self.path.partition("?")[0]
            asked.append((self.command, path))
            body = {"/api/v1/nodes": NODES, "/api/v1/pods": PODS}.get(path)
            code = refused["code"] or (200 if self.command == "GET" and body else 403)
            if code != 200:
                body = {"kind": "Status", "status": "Failure", "message": "no", "code": code}
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}
        ],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }  # fmt: skip
    (tmp_path / "kube.json").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kube.json"))
    yield asked, refused
    server.shutdown()
    server.server_close()


def test_pods_with_whole_shared_and_mig_gpus(cluster):
    asked, refused = cluster
    rows = check_ledger(kubernetes, "", ALL)
    held = {job.name: (job.gpus, job.milli, job.profile, job.state) for job in rows.jobs}
    assert held == {
        "whole": (2, 1000, None, "running"), "mig": (1, 143, "1g.10gb", "running"),
        "shared": (1, 500, None, "running"), "waits": (1, 1000, None, "pending"),
    }  # fmt: skip
    assert {h.label: h.shared for h in rows.holdings} == {
        "team/whole": False, "team/mig": False, "team/shared": True,
    }  # fmt: skip
    assert (rows.nodes[0].gpus, rows.nodes[0].cpus) == (8, 64.0)
    assert {method for method, _ in asked} == {"GET"}
    assert {path for _, path in asked} == {"/api/v1/nodes", "/api/v1/pods"}
    for code in (401, 403):
        refused["code"] = code
        with pytest.raises(InputError, match="get, list and watch"):
            kubernetes.read("", ALL)


def test_init_containers_slices_of_a_node_and_evicted_pods(cluster, monkeypatch):
    init = pod("init", "nvidia.com/gpu", "2")
    init["spec"]["initContainers"] = [
        {"name": "fetch", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
        {"name": "sidecar", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}},
    ]
    evicted = pod("evicted", "nvidia.com/gpu", "1", "Failed")
    evicted["metadata"]["deletionTimestamp"] = "2026-11-26T05:00:05Z"
    lost = pod("lost", "nvidia.com/gpu", "1", "Failed")
    lost["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-26T03:00:05Z"},
        {"type": "DisruptionTarget", "status": "True"},
    ]
    single = pod("single", "nvidia.com/gpu", "1")
    single["spec"]["nodeName"] = "mig-node"
    node = {
        "metadata": {
            "name": "mig-node",
            "labels": {
                "nvidia.com/gpu.count": "56", "nvidia.com/mig.strategy": "single",
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
            },
        },
        "spec": {}, "status": {"capacity": {"nvidia.com/gpu": "56"}},
    }  # fmt: skip
    monkeypatch.setitem(PODS, "items", [init, evicted, lost, single])
    monkeypatch.setitem(NODES, "items", [*NODES["items"], node])
    rows = kubernetes.read("", ALL)
    jobs = {job.name: job for job in rows.jobs}
    assert (jobs["init"].gpus, jobs["init"].cpus) == (2, 3.0)
    assert (jobs["single"].profile, jobs["single"].milli) == ("1g.5gb", 143)
    held = {h.label: (h.end_ms - h.start_ms) / 3_600_000 for h in rows.holdings}
    assert (jobs["evicted"].state, jobs["lost"].state) == ("failed", "preempted")
    assert (held["team/evicted"], held["team/lost"]) == (4.0, 2.0)
    assert {row.node: row.gpus for row in rows.nodes} == {"gpu-node-1": 8, "mig-node": 8}
    assert not rows.counts
