"""Pods of Kubernetes that hold GPUs (``kubernetes``, or ``kubernetes:CONTEXT``), by lightkube.

It lists pods and nodes and does nothing else: a role that may get, list and watch both suffices.
Whole GPUs (``nvidia.com/gpu``), slices (``nvidia.com/mig-1g.10gb``) and shared ones
(``nvidia.com/gpu.shared``, whose replicas the node's labels say) are told apart. Kubernetes forgets
ended pods: for history, add ``--ledger labels`` with readings that name their pods.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from whyidle.errors import InputError, MissingExtraError
from whyidle.ledgers._fields import mig_milli, parse_size, parse_state
from whyidle.ledgers._holdings import add_holdings
from whyidle.model.fleet_rows import WHOLE, FleetJob, LedgerRows, NodeRow, Window

_WHOLE: Final = re.compile(r"[\w.-]+/gpu")
_SHARED: Final = re.compile(r"[\w.-]+/gpu\.shared")
_SLICE: Final = re.compile(r"nvidia\.com/mig-([\w.]+)")
_PRODUCT: Final = "nvidia.com/gpu.product"
_COUNT: Final = "nvidia.com/gpu.count"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
ROLE: Final = "get, list and watch of pods and nodes"


def read(where: str, window: Window) -> LedgerRows:
    """Pods that hold GPUs now, and those that ended and are not yet forgotten."""
    nodes, pods = _list_objects(where)
    rows = LedgerRows()
    replicas: dict[str, int] = {}
    for node in nodes:
        _add_node(node, rows, replicas)
    for pod in pods:
        _add_pod(pod, rows, replicas, window)
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
            why="It asks Kubernetes.",
            hint="pip install 'whyidle[fleet,kubernetes]'",
        ) from error
    try:
        config = lightkube.KubeConfig.from_env()
        client = lightkube.Client(config=config.get(context_name=context or None))
        return list(client.list(Node)), list(client.list(Pod, namespace="*"))
    except lightkube.ApiError as error:
        code = getattr(error.status, "code", None)
        hint = f"The account needs {ROLE}." if code in (401, 403) else ""
        raise InputError("Kubernetes refuses.", why=f"{error}.", hint=hint) from error
    except (lightkube.core.exceptions.ConfigError, httpx.HTTPError, OSError, ValueError) as error:
        raise InputError(
            "Kubernetes does not answer.", why=f"{error}.", hint="kubectl get nodes"
        ) from error


def _add_node(node: Any, rows: LedgerRows, replicas: dict[str, int]) -> None:
    labels: Mapping[str, str] = node.metadata.labels or {}
    capacity: Mapping[str, str] = (node.status and node.status.capacity) or {}
    count = labels.get(_COUNT) or next((n for k, n in capacity.items() if _WHOLE.fullmatch(k)), "")
    if labels.get(_REPLICAS, "").isdigit():
        replicas[node.metadata.name] = int(labels[_REPLICAS])
    if count.isdigit() and int(count):
        rows.nodes.append(
            NodeRow(
                node=node.metadata.name,
                gpus=int(count),
                gpu_type=labels.get(_PRODUCT),
                cpus=_parse_cores(capacity.get("cpu", "")),
            )
        )


def _add_pod(pod: Any, rows: LedgerRows, replicas: Mapping[str, int], window: Window) -> None:
    containers = [*(pod.spec.containers or []), *(pod.spec.initContainers or [])]
    limits = [
        (c.resources and (c.resources.limits or c.resources.requests)) or {} for c in containers
    ]
    held = Counter[tuple[int, str | None]]()
    node = pod.spec.nodeName
    for name, amount in (item for limit in limits for item in limit.items()):
        if str(amount).isdigit() and (kind := _recognise(name, replicas.get(node or "", 0))):
            held[kind] += int(amount)
    start, end = _times(pod)
    if not held or (end is not None and end <= window.start_ms):
        return
    name, space = pod.metadata.name, pod.metadata.namespace
    for number, ((milli, profile), count) in enumerate(sorted(held.items(), key=str)):
        job = FleetJob(
            job=f"{space}/{name}" + (f"~{number + 1}" if number else ""),
            ledger="kubernetes",
            state=parse_state((pod.status and pod.status.phase) or "unknown"),
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
            cpus=_sum_limits(limits, "cpu", _parse_cores),
            memory_bytes=_round(_sum_limits(limits, "memory", parse_size)),
            nodes=1 if node else None,
        )
        add_holdings(rows, job, f"{space}/{name}", [node] if node else [])


def _recognise(resource: str, replicas: int) -> tuple[int, str | None] | None:
    """The share of a GPU that one of a resource is, and its MIG profile."""
    if matched := _SLICE.fullmatch(resource):
        return mig_milli(matched[1]), matched[1]
    if _SHARED.fullmatch(resource) or (_WHOLE.fullmatch(resource) and replicas > 1):
        return max(1, WHOLE // max(replicas, 2)), None
    return (WHOLE, None) if _WHOLE.fullmatch(resource) else None


def _times(pod: Any) -> tuple[int | None, int | None]:
    """When it got its GPUs, and when its last container ended."""
    status = pod.status
    if status is None or pod.spec.nodeName is None:
        return None, None
    ended = [
        c.state.terminated.finishedAt
        for c in status.containerStatuses or []
        if c.state and c.state.terminated and c.state.terminated.finishedAt
    ]
    over = status.phase in ("Succeeded", "Failed") and ended
    return _milliseconds(status.startTime), _milliseconds(max(ended)) if over else None


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _sum_limits(limits: Iterable[Mapping[str, str]], name: str, parse: Any) -> float | None:
    amounts: Iterator[float | None] = (parse(limit[name]) for limit in limits if name in limit)
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _round(amount: float | None) -> int | None:
    return None if amount is None else round(amount)


def _parse_cores(text: str) -> float | None:
    """``2`` or ``500m``."""
    number, factor = (text[:-1], 0.001) if text.endswith("m") else (text, 1.0)
    return float(number) * factor if number.replace(".", "", 1).isdigit() else None
