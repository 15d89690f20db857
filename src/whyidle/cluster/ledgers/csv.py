"""A list of jobs as CSV (``csv:FILE``, compressed or not), with a column name of the public traces.

Known are the columns of Microsoft's Philly, of Helios and of Acme (S-Lab), of Alibaba's openb, and
the names that whyidle itself uses. A second file with the columns of a list of nodes
(``csv:JOBS,NODES``) says what the cluster has. Times are ISO 8601, or seconds or milliseconds since
the epoch; a job needs a start and an end or duration to have held GPUs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Final

from whyidle.cluster.ledgers._fields import (
    parse_clock,
    parse_number,
    parse_size,
    parse_state,
    parse_time,
)
from whyidle.cluster.ledgers._holdings import add_holdings, read_text
from whyidle.errors import InputError
from whyidle.model.fleet_rows import WHOLE, FleetJob, LedgerRows, NodeRow, Window
from whyidle.model.node_lists import expand_nodes

ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "job": ("job", "job_id", "jobid", "name", "id", "pod", "inst_id"),
    "name": ("jobname", "job_name", "type", "title"),
    "user": ("user", "user_id", "username", "namespace"),
    "account": ("account", "project", "group", "organization"),
    "partition": ("partition", "vc", "queue", "cluster", "qos", "virtual_cluster"),
    "state": ("state", "status", "pod_phase", "phase"),
    "submit": ("submit", "submit_time", "submitted_time", "creation_time", "submit_timestamp"),
    "start": ("start", "start_time", "scheduled_time", "started_at", "launch_time"),
    "end": ("end", "end_time", "finished_time", "deletion_time", "finish_time"),
    "duration": ("duration", "duration_s", "run_time", "runtime", "duration_time"),
    "limit": ("limit_s", "time_limit_s", "timelimit_s"),
    "gpus": ("gpus", "gpu_num", "num_gpu", "num_gpus", "gpu_count", "plan_gpu", "gpu_request"),
    "milli": ("gpu_milli",),
    "profile": ("profile", "mig_profile"),
    "gpu_type": ("gpu_type", "gpu_spec", "model", "gpu_model"),
    "cpus": ("cpus", "cpu_num", "num_cpu", "cpu_request"),
    "cpu_milli": ("cpu_milli",),
    "memory": ("memory", "memory_bytes", "mem"),
    "memory_mib": ("memory_mib",),
    "node": ("node", "nodes", "node_list", "nodelist", "hosts", "machine", "machine_id"),
    "gpu": ("gpu_ids", "gpu_index", "gpu_indices", "gpu_uuid", "gpu_uuids"),
    "label": ("label", "job_id_raw"),
}
"""what is read -> names of its column, in lower case; the first that a file has is used"""
_NODE_NAMES: Final = ("sn", "node", "node_name", "hostname")
_NODE_GPUS: Final = ("gpu", "gpus", "gpu_count", "gpu_num")


def read(where: str, window: Window) -> LedgerRows:  # noqa: ARG001  # a file has what it has
    """All jobs of the files."""
    rows = LedgerRows()
    if not where:
        raise InputError("The ledger csv needs a file.", hint="--ledger csv:jobs.csv")
    for name in where.split(","):
        parse_table(read_text(name), rows, name)
    if not rows.jobs and not rows.nodes:
        raise InputError(f"There is no job in {where}.", why=_explain_counts(rows))
    return rows


def _explain_counts(rows: LedgerRows) -> str:
    return f"{', '.join(f'{n} {what}' for what, n in rows.counts.items()) or 'It has no row'}."


def parse_table(text: str, rows: LedgerRows, name: str) -> None:
    """Add the jobs, or the nodes, of one file."""
    head, records = _open_table(text, rows)
    columns = find_columns(head)
    if "job" in columns and ("gpus" in columns or "milli" in columns):
        _add_jobs(records, columns, rows)
    elif any(key in head for key in _NODE_NAMES) and any(key in head for key in _NODE_GPUS):
        _add_nodes(records, rows)
    else:
        raise InputError(
            f"{name} is not a list of jobs.",
            why="No columns for the job and its number of GPUs were recognized.",
            hint="Name them job, user, gpus, start, end and state, for instance.",
        )


def find_columns(head: list[str]) -> dict[str, str]:
    """What is read -> its column in this file."""
    found = {
        field: next((name for name in names if name in head), None)
        for field, names in ALIASES.items()
    }
    return {field: name for field, name in found.items() if name is not None}


def _open_table(text: str, rows: LedgerRows) -> tuple[list[str], Iterator[dict[str, str]]]:
    separator = max(",;\t|", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        head = [cell.strip().lower() for cell in next(reader, [])]
    except csv.Error as error:
        raise InputError("The list of jobs cannot be read.", why=f"{error}.") from error
    return head, _read_records(reader, head, rows)


def _read_records(
    reader: Iterator[list[str]], head: list[str], rows: LedgerRows
) -> Iterator[dict[str, str]]:
    while True:
        try:
            cells = next(reader, None)
        except csv.Error:
            rows.counts["rows that cannot be read"] += 1
            continue
        if cells is None:
            return
        if len(cells) != len(head):
            rows.counts["incomplete rows"] += any(cells)
            continue
        yield dict(zip(head, cells, strict=True))


def _add_jobs(
    records: Iterator[dict[str, str]], columns: Mapping[str, str], rows: LedgerRows
) -> None:
    seen: dict[str, tuple[str, ...]] = {}
    for record in records:
        values = {field: record[name].strip() for field, name in columns.items()}
        job, key = values["job"], tuple(values.values())
        if not job:
            rows.counts["rows without a job"] += 1
        elif job in seen:
            same = seen[job] == key
            rows.counts["duplicate rows" if same else "contradictory rows"] += 1
        else:
            seen[job] = key
            try:
                _add_job(values, rows)
            except ValueError:
                rows.counts["rows that cannot be read"] += 1


def _add_job(values: Mapping[str, str], rows: LedgerRows) -> None:
    start, end = parse_time(values.get("start", "")), parse_time(values.get("end", ""))
    length = _read_length(values.get("duration", ""))
    if end is None and start is not None and length is not None:
        end = start + round(length * 1000)
    gpus, milli = _read_gpus(values)
    limit, nodes = _read_number(values, "limit"), _list_nodes(values.get("node", ""))
    job = FleetJob(
        job=values["job"],
        ledger="csv",
        state=parse_state(values.get("state", "")) if values.get("state") else "completed",
        submit_ms=parse_time(values.get("submit", "")),
        start_ms=start,
        end_ms=end,
        limit_s=None if limit is None else round(limit),
        gpus=gpus,
        milli=milli,
        cpus=_scale(_read_number(values, "cpu_milli"), 0.001) or _read_number(values, "cpus"),
        memory_bytes=parse_size(values.get("memory", ""))
        or _round(_scale(_read_number(values, "memory_mib"), 1 << 20)),
        nodes=len(nodes) or None,
        name=values.get("name") or None,
        user=values.get("user") or None,
        account=values.get("account") or None,
        partition=values.get("partition") or None,
        profile=values.get("profile") or None,
        gpu_type=values.get("gpu_type") or None,
    )
    names = values.get("gpu", "").replace(";", " ").replace(",", " ").split()
    places = {nodes[0]: names} if len(nodes) == 1 and names else {}
    add_holdings(rows, job, values.get("label") or job.job, nodes, places)


def _read_number(values: Mapping[str, str], field: str) -> float | None:
    return parse_number(values.get(field, ""))


def _scale(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor


def _round(number: float | None) -> int | None:
    return None if number is None else round(number)


def _read_length(text: str) -> float | None:
    return parse_number(text) if text.replace(".", "", 1).isdigit() else parse_clock(text)


def _read_gpus(values: Mapping[str, str]) -> tuple[int, int]:
    """Devices, and the share of each in thousandths. A count below one is a share, as in Alibaba's
    ``plan_gpu``."""
    gpus, milli = _read_number(values, "gpus"), _read_number(values, "milli")
    if gpus is not None and 0 < gpus < 1:
        return 1, max(1, round(gpus * WHOLE))
    count = 1 if gpus is None and milli else int(gpus or 0)
    return count, round(milli) if milli and 1 <= milli <= WHOLE else WHOLE


def _list_nodes(text: str) -> list[str]:
    return expand_nodes(text.replace(";", ",").replace(" ", ",")) if text else []


def _add_nodes(records: Iterator[dict[str, str]], rows: LedgerRows) -> None:
    for record in records:
        name = next(record[key] for key in _NODE_NAMES if key in record)
        count = next(record[key] for key in _NODE_GPUS if key in record)
        if not name or not count.isdigit():
            rows.counts["rows that cannot be read"] += 1
            continue
        kind = record.get("model") or record.get("gpu_type") or None
        cpu = record.get("cpu_milli", "")
        cpus = int(cpu) / 1000 if cpu.isdigit() else None
        rows.nodes.append(NodeRow(node=name, gpus=int(count), gpu_type=kind, cpus=cpus))
