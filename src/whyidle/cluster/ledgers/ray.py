"""Tasks and actors of a Ray cluster that hold GPUs (``ray:http://HEAD:8265``), by its state API.

An actor holds its GPUs from the end of its creation until it is dead. Ray says when tasks ended,
and not when actors did: of a dead actor the end of its job is taken. A cluster with tokens is asked
with that of ``$RAY_AUTH_TOKEN``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import msgspec

from whyidle.cluster.ledgers._fields import parse_state
from whyidle.cluster.ledgers._holdings import add_holdings
from whyidle.errors import InputError
from whyidle.model.fleet_rows import WHOLE, FleetJob, LedgerRows, NodeRow, Window

MOST: Final = 10_000
"""rows that the state API gives at most"""
PATIENCE_S: Final = 30
TOKEN: Final = "RAY_AUTH_TOKEN"
"""Ray's own variable"""
DEFAULT: Final = "http://127.0.0.1:8265"


def read(where: str, window: Window) -> LedgerRows:  # noqa: ARG001  # Ray knows what it knows
    """Everything with a GPU that Ray remembers."""
    head = (where or DEFAULT).rstrip("/")
    rows = LedgerRows()
    hosts = {}
    for node in _ask(head, "nodes"):
        hosts[node.get("node_id")] = node.get("node_name") or node.get("node_ip")
        gpus = (node.get("resources_total") or {}).get("GPU", 0)
        if gpus and node.get("state") == "ALIVE":
            rows.nodes.append(NodeRow(node=str(hosts[node["node_id"]]), gpus=int(gpus)))
    jobs = {job.get("job_id"): job for job in _ask(head, "jobs")}
    creations = {}
    for task in _ask(head, "tasks"):
        if task.get("type") == "ACTOR_CREATION_TASK":
            creations[task.get("actor_id")] = task
        else:
            retry = task.get("attempt_number") or 0
            name = f"{task.get('task_id')}~{retry + 1}" if retry else str(task.get("task_id"))
            _add_work(rows, task, name, hosts, jobs)
    for actor in _ask(head, "actors"):
        created = creations.get(actor.get("actor_id"), {})
        job = jobs.get(actor.get("job_id"), {})
        dead = actor.get("state") == "DEAD"
        work = {
            **actor,
            "name": actor.get("class_name"),
            "state": "FINISHED" if dead else "RUNNING",
            "start_time_ms": created.get("end_time_ms") or created.get("start_time_ms"),
            "end_time_ms": (job.get("end_time") or None) if dead else None,
        }
        _add_work(rows, work, str(actor.get("actor_id")), hosts, jobs)
    return rows


def _ask(head: str, what: str) -> list[dict[str, Any]]:
    """A list of the state API.

    Raises:
        InputError: it does not answer in the known form.
    """
    path = "/api/jobs/" if what == "jobs" else f"/api/v0/{what}?detail=1&limit={MOST}"
    token = os.environ.get(TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urlopen(Request(head + path, headers=headers), timeout=PATIENCE_S) as answer:
            document = msgspec.json.decode(answer.read())
    except HTTPError as error:
        hint = f"Set ${TOKEN}." if error.code in (401, 403) else ""
        raise InputError(f"{head} refuses.", why=f"HTTP status {error.code}.", hint=hint) from error
    except (URLError, OSError, ValueError) as error:
        why: object = error.reason if isinstance(error, URLError) else error
        raise InputError(
            f"Ray's dashboard at {head} does not answer.",
            why=f"{why}.",
            hint="--ledger ray:http://HEAD:8265",
        ) from error
    try:
        found = document if what == "jobs" else document["data"]["result"]["result"]
        return [row for row in found if isinstance(row, dict)]
    except (KeyError, TypeError) as error:
        raise InputError(f"{head} is not a Ray dashboard.") from error


def _add_work(
    rows: LedgerRows,
    work: Mapping[str, Any],
    name: str,
    hosts: Mapping[Any, Any],
    jobs: Mapping[Any, Mapping[str, Any]],
) -> None:
    """Add a task or an actor with GPUs; half of one is a shared device."""
    wanted = work.get("required_resources") or {}
    amount = wanted.get("GPU", 0)
    if not isinstance(amount, int | float) or amount <= 0:
        return
    start, end = work.get("start_time_ms"), work.get("end_time_ms")
    if start is None:
        rows.counts["tasks and actors without a start"] += 1
        return
    parent = jobs.get(work.get("job_id"), {})
    host = hosts.get(work.get("node_id"))
    state = {"FINISHED": "completed", "FAILED": "failed"}.get(str(work.get("state")), "running")
    job = FleetJob(
        job=name,
        ledger="ray",
        state=parse_state(state),
        name=str(work.get("name") or work.get("func_or_class_name") or "") or None,
        user=str((parent.get("metadata") or {}).get("user") or "") or None,
        account=str(work.get("job_id") or "") or None,
        partition=str(parent.get("submission_id") or "") or None,
        start_ms=int(start),
        end_ms=None if end is None else int(end),
        gpus=1 if amount < 1 else int(amount),
        milli=round(amount * WHOLE) if amount < 1 else WHOLE,
        cpus=wanted.get("CPU"),
        nodes=1 if host else None,
    )
    add_holdings(rows, job, name, [str(host)] if host else [])
