"""Containers of Docker, Podman, containerd and LXC by control group; Apptainer by environment."""

from __future__ import annotations

import re

from whyidle.model.documents.watch_document import Tenant
from whyidle.model.live.tenancy import ProcessIdentity

RANK = 30
_ID = re.compile(
    r"(?:/docker/|/docker-|/libpod-|/crio-|/cri-containerd-|/nerdctl-|/containerd/)([0-9a-f]{12,64})"
)
_LXC = re.compile(r"/lxc(?:\.payload)?[./]([\w.-]+)")


def identify(process: ProcessIdentity) -> Tenant | None:
    """The container; its label ``container`` is the id as ``docker ps`` prints it."""
    if found := _ID.search(process.cgroup):
        return Tenant(kind="container", job=found[1][:12], labels={"container": found[1][:12]})
    if found := _LXC.search(process.cgroup):
        return Tenant(kind="container", job=found[1], labels={"container": found[1]})
    environ = process.environ or {}
    for variable in ("APPTAINER_NAME", "SINGULARITY_NAME"):
        if name := environ.get(variable):
            return Tenant(kind="container", job=name, labels={"container": name})
    return None
