"""Pods of Kubernetes that hold GPUs (``kubernetes``, or ``kubernetes:CONTEXT``), by lightkube.

It lists pods and nodes and does nothing else: a role that may get, list and watch both suffices.
Whole GPUs (``nvidia.com/gpu``), slices (``nvidia.com/mig-1g.10gb``, or whole ones of a node whose
product is a slice, which is MIG's strategy *single*) and shared ones (``nvidia.com/gpu.shared``,
whose replicas the node's labels say) are told apart. Init containers run one after another before
the others, but for sidecars: a pod holds what it needs at most at once. Kubernetes forgets
ended pods: for history, add ``--ledger labels`` with readings that name their pods.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from whyidle.cluster.ledgers._fields import (
    mig_milli,
    mig_profile,
    parse_size,
    parse_state,
    slices_of_card,
)
from whyidle.cluster.ledgers._holdings import add_holdings
from whyidle.errors import InputError, MissingExtraError
from whyidle.model.fleet_rows import WHOLE, FleetJob, JobState, LedgerRows, NodeRow, Window

_WHOLE: Final = re.compile(r"[\w.-]+/gpu")
_SHARED: Final = re.compile(r"[\w.-]+/gpu\.shared")
_SLICE: Final = re.compile(r"nvidia\.com/mig-([\w.]+)")
_PRODUCT: Final = "nvidia.com/gpu.product"
_COUNT: Final = "nvidia.com/gpu.count"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
CHUNK: Final = 500
"""objects of one answer, as kubectl asks"""
ROLE: Final = "get, list and watch of pods and nodes"


def read(where: str, window: Window) -> LedgerRows:
    """Pods that hold GPUs now, and those that ended and are not yet forgotten."""
    nodes, pods = _list_objects(where)
    rows = LedgerRows()
    replicas: dict[str, int] = {}
    slices: dict[str, str] = {}
    for node in nodes:
        _add_node(node, rows, replicas, slices)
    for pod in pods:
        _add_pod(pod, rows, replicas, slices, window)
    rows.notes.append(
        "Kubernetes forgets ended pods; if readings name their pods, add --ledger labels."
    )
    return rows


def _list_objects(context: str) -> tuple[list[Any], list[Any]]:
    try:
        import httpx  # noqa: PLC0415  # comes with lightkube, which is an extra
        import lightkube  # noqa: PLC0415
        from lightkube.resources.core_v1 import Node, Pod  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "lightkube is not installed.",
            why="It is needed to query Kubernetes.",
            hint="pip install 'whyidle[fleet,kubernetes]'",
        ) from error
    try:
        config = lightkube.KubeConfig.from_env()
        client = lightkube.Client(config=config.get(context_name=context or None))
        nodes = list(client.list(Node, chunk_size=CHUNK))
        return nodes, list(client.list(Pod, namespace="*", chunk_size=CHUNK))
    except lightkube.ApiError as error:
        code = getattr(error.status, "code", None)
        hint = f"The account needs {ROLE}." if code in (401, 403) else ""
        raise InputError("Kubernetes refuses.", why=f"{error}.", hint=hint) from error
    except (lightkube.core.exceptions.ConfigError, httpx.HTTPError, OSError, ValueError) as error:
        raise InputError(
            "Kubernetes does not answer.", why=f"{error}.", hint="kubectl get nodes"
        ) from error


def _add_node(
    node: Any, rows: LedgerRows, replicas: dict[str, int], slices: dict[str, str]
) -> None:
    labels: Mapping[str, str] = node.metadata.labels or {}
    capacity: Mapping[str, str] = (node.status and node.status.capacity) or {}
    count = labels.get(_COUNT) or next((n for k, n in capacity.items() if _WHOLE.fullmatch(k)), "")
    if labels.get(_REPLICAS, "").isdigit():
        replicas[node.metadata.name] = int(labels[_REPLICAS])
    profile = mig_profile(labels.get(_PRODUCT))
    if profile:  # each of the node's "GPUs" is a slice
        slices[node.metadata.name] = profile
    if count.isdigit() and int(count):
        rows.nodes.append(
            NodeRow(
                node=node.metadata.name,
                gpus=math.ceil(int(count) / slices_of_card(profile)),
                gpu_type=labels.get(_PRODUCT),
                cpus=_parse_cores(capacity.get("cpu", "")),
            )
        )


def _add_pod(
    pod: Any,
    rows: LedgerRows,
    replicas: Mapping[str, int],
    slices: Mapping[str, str],
    window: Window,
) -> None:
    limits = _held_at_once(pod.spec)
    held = Counter[tuple[int, str | None]]()
    node = pod.spec.nodeName
    for name, amount in limits.items():
        kind = _recognise(name, replicas.get(node or "", 0), slices.get(node or ""))
        if kind and amount.is_integer():
            held[kind] += int(amount)
    start, end = _times(pod)
    if not held or (end is not None and end <= window.start_ms):
        return
    name, space = pod.metadata.name, pod.metadata.namespace
    for number, ((milli, profile), count) in enumerate(sorted(held.items(), key=str)):
        job = FleetJob(
            job=f"{space}/{name}" + (f"~{number + 1}" if number else ""),
            ledger="kubernetes",
            state=_state_of(pod),
            name=name,
            user=space,
            account=space,
            partition=(pod.spec.priorityClassName or None),
            submit_ms=_milliseconds(pod.metadata.creationTimestamp),
            start_ms=start,
            end_ms=end,
            limit_s=pod.spec.activeDeadlineSeconds,
            gpus=count,
            milli=milli,
            profile=profile,
            gpu_type=next((row.gpu_type for row in rows.nodes if row.node == node), None),
            cpus=limits.get("cpu"),
            memory_bytes=round(limits["memory"]) if "memory" in limits else None,
            nodes=1 if node else None,
        )
        add_holdings(rows, job, f"{space}/{name}", [node] if node else [])


def _state_of(pod: Any) -> JobState:
    """The pod's state. Kubernetes marks a pod that it ended itself for a reason outside of the pod
    (preemption, a drained or lost node), and not one that went over its own limits.

    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    state = parse_state((pod.status and pod.status.phase) or "unknown")
    conditions = (pod.status and pod.status.conditions) or []
    if any(one.type == "DisruptionTarget" and one.status == "True" for one in conditions):
        return "preempted" if state == "failed" else state
    return state


def _held_at_once(spec: Any) -> dict[str, float]:
    """What a pod needs at most at once, by resource: its containers and sidecars together, or an
    init container with the sidecars that were started before it, whichever is more.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    beside: defaultdict[str, float] = defaultdict(float)
    most: dict[str, float] = {}
    for container in spec.initContainers or []:
        needed = _read_limits(container)
        for name, amount in needed.items():
            most[name] = max(most.get(name, 0.0), beside[name] + amount)
        if getattr(container, "restartPolicy", None) == "Always":
            _add(beside, needed)
    for container in spec.containers or []:
        _add(beside, _read_limits(container))
    return {name: max(most.get(name, 0.0), beside[name]) for name in {*most, *beside}}


def _add(amounts: defaultdict[str, float], more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        amounts[name] += amount


def _read_limits(container: Any) -> dict[str, float]:
    """Amounts that a container may use, or else requests, by resource."""
    found = (
        container.resources and (container.resources.limits or container.resources.requests)
    ) or {}
    amounts: dict[str, float] = {}
    for name, text in found.items():
        parse = {"cpu": _parse_cores, "memory": parse_size}.get(name, _parse_count)
        amount = parse(str(text))
        if amount is not None:
            amounts[name] = float(amount)
    return amounts


def _recognise(resource: str, replicas: int, profile: str | None) -> tuple[int, str | None] | None:
    """The share of a GPU that one of a resource is, and its MIG profile; ``profile`` is that of a
    node whose GPUs are all slices."""
    if matched := _SLICE.fullmatch(resource):
        return mig_milli(matched[1]), matched[1]
    if _SHARED.fullmatch(resource) or (_WHOLE.fullmatch(resource) and replicas > 1):
        return max(1, WHOLE // max(replicas, 2)), None
    return (mig_milli(profile), profile) if _WHOLE.fullmatch(resource) else None


def _times(pod: Any) -> tuple[int | None, int | None]:
    """When it got its GPUs, and when it gave them back: when its last container ended or, where no
    container tells (an evicted pod, a lost node), when it was deleted or its condition changed
    last."""
    status = pod.status
    if status is None or pod.spec.nodeName is None:
        return None, None
    start = _milliseconds(status.startTime)
    if status.phase not in ("Succeeded", "Failed"):
        return start, None
    ended = [
        c.state.terminated.finishedAt
        for c in status.containerStatuses or []
        if c.state and c.state.terminated and c.state.terminated.finishedAt
    ]
    changed = [c.lastTransitionTime for c in status.conditions or [] if c.lastTransitionTime]
    gone = [pod.metadata.deletionTimestamp] if pod.metadata.deletionTimestamp else changed
    return start, _milliseconds(max(ended or gone, default=None))


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _parse_cores(text: str) -> float | None:
    """``2`` or ``500m``."""
    number, factor = (text[:-1], 0.001) if text.endswith("m") else (text, 1.0)
    return float(number) * factor if number.replace(".", "", 1).isdigit() else None


def _parse_count(text: str) -> float | None:
    return float(text) if text.isdigit() else None
