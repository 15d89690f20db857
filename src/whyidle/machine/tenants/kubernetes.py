"""Pods of Kubernetes.

The control group names the pod's UID and the container's id, in the spelling of the cgroupfs and of
the systemd driver. Namespace and name come from the folders of the kubelet's logs, which are named
``NAMESPACE_POD_UID``, and inside the pod from the host name.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from whyidle.model.documents.watch_document import Tenant
from whyidle.model.live.tenancy import ProcessIdentity

RANK = 20
_POD = re.compile(
    r"kubepods[^\n]*?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
)
_CONTAINER = re.compile(r"([0-9a-f]{64})")
LOGS = "var/log/pods"
_NAMESPACE = "var/run/secrets/kubernetes.io/serviceaccount/namespace"


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
