"""What the readers of ledgers share: text of a file, and the holdings of a job."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from whyidle.errors import InputError
from whyidle.model.fleet_rows import WHOLE, FleetJob, Holding, LedgerRows
from whyidle.model.node_lists import MOST_RANKS

MOST_BYTES: Final = 2 << 30


def read_text(where: str) -> str:
    """The text of a file, which may be compressed with gzip.

    Raises:
        InputError: it cannot be read.
    """
    path = Path(where)
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Cannot read {where}.", why=f"{why.rstrip('.')}.") from error
    return content.decode("utf-8-sig", errors="replace").replace("\0", "")


def add_holdings(
    rows: LedgerRows,
    job: FleetJob,
    label: str,
    nodes: Sequence[str] = (),
    places: Mapping[str, Sequence[str]] | None = None,
    *,
    seen_ms: int | None = None,
) -> None:
    """Add a job and what it held: its GPUs one by one where ``places`` names them by node, by node
    where they divide evenly, and else as one. A job that still runs held them until ``seen_ms``,
    when the ledger was read. A job that ends before it starts is counted and left out."""
    start, end = job.start_ms, job.end_ms
    if job.gpus > MOST_RANKS or (job.cpus is not None and job.cpus > MOST_RANKS * 1000):
        rows.counts["rows with impossible numbers"] += 1
        return
    if start is not None and end is None and job.state not in ("running", "pending"):
        rows.counts["ended jobs without an end"] += 1
        return
    if start is not None and end is not None and end < start:
        rows.counts["jobs that end before they start"] += 1
        return
    rows.jobs.append(job)
    if start is None or job.gpus == 0 or job.state == "pending":
        return
    if end is None:
        end = int(time.time() * 1000) if seen_ms is None else seen_ms
    if end <= start:
        return
    for node, gpu, gpus in _divide_gpus(job, nodes, places or {}):
        rows.holdings.append(
            Holding(
                job=job.job, label=label, node=node, gpu=gpu, gpus=gpus, milli=job.milli,
                shared=job.milli < WHOLE and job.profile is None, start_ms=start, end_ms=end,
            )
        )  # fmt: skip


def _divide_gpus(
    job: FleetJob, nodes: Sequence[str], places: Mapping[str, Sequence[str]]
) -> list[tuple[str | None, str | None, int]]:
    known = [(node, gpu) for node in nodes for gpu in places.get(node, ())]
    if len(known) == job.gpus:
        return [(node, gpu, 1) for node, gpu in known]
    if nodes and job.gpus % len(nodes) == 0:
        return [(node, None, job.gpus // len(nodes)) for node in nodes]
    return [(None, None, job.gpus)]
