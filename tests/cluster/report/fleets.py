"""A small fleet with known truth: jobs and readings as files, as people would have them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec

from whyidle.cluster.report.reading import FleetTables, read_fleet
from whyidle.cluster.report.report import make_report
from whyidle.model.documents.fleet import FleetReport, Prices
from whyidle.model.fleet_rows import Window

START = datetime(2026, 11, 20, tzinfo=timezone.utc)
NOW_MS = int((START + timedelta(days=3)).timestamp() * 1000)
JOB_HEAD = "job,user,partition,gpus,node,gpu_ids,state,start,end"
READING_HEAD = "time,node,gpu,busy,memory_bytes,power_w"
GIB = 1 << 30


def moment(hours: float) -> str:
    return (START + timedelta(hours=hours)).isoformat()


def job(name: str, user: str, node: str, gpus: str, hours: tuple[float, float], **more: str) -> str:
    """A line of the ledger; ``gpus`` are numbers with blanks."""
    state, partition = more.get("state", "COMPLETED"), more.get("partition", "gpu")
    count = len(gpus.split())
    times = f"{moment(hours[0])},{moment(hours[1])}"
    return f"{name},{user},{partition},{count},{node},{gpus},{state},{times}"


def readings(
    node: str,
    gpu: str,
    hours: tuple[float, float],
    busy: Callable[[int], float] | float,
    *,
    memory: int = 10 * GIB,
    period_s: int = 60,
) -> list[str]:
    """Lines of the meter, one a minute, the first one period after the begin."""
    count = round((hours[1] - hours[0]) * 3600 / period_s)
    lines = []
    for number in range(1, count + 1):
        value = busy if isinstance(busy, float | int) else busy(number)
        when = moment(hours[0] + number * period_s / 3600)
        lines.append(f"{when},{node},{gpu},{value},{memory},200")
    return lines


def read(folder: Path, jobs: list[str], lines: list[str], *, head: str = JOB_HEAD) -> FleetTables:
    """Read a fleet from lines of both files."""
    (folder / "jobs.csv").write_text("\n".join([head, *jobs]) + "\n")
    text = "\n".join([READING_HEAD, *lines]) + "\n"
    if not (folder / "readings.csv").exists() or (folder / "readings.csv").read_text() != text:
        (folder / "readings.csv").write_text(text)
    return read_fleet(
        [f"csv:{folder / 'jobs.csv'}"],
        [f"csv:{folder / 'readings.csv'}"] if lines else [],
        Window(int(START.timestamp() * 1000), NOW_MS),
        work=folder / "cache",
        progress=lambda done, total: None,
        now_ms=NOW_MS,
    )


def report(
    folder: Path,
    jobs: list[str],
    lines: list[str],
    *,
    head: str = JOB_HEAD,
    prices: Prices | None = None,
) -> FleetReport:
    """The report of a fleet from lines of both files."""
    fleet = read(folder, jobs, lines, head=head)
    return make_report(fleet, by="user", prices=prices or Prices(), now_ms=NOW_MS)


def write_fleet(path: Path) -> Path:
    """Write the report of two jobs of two GPUs, one of them of a user whose name is markup."""
    jobs = [job("1", "alice", "n1", "0 1", (0, 1)), job("2", "<b>bob</b>", "n2", "0 1", (0, 1))]
    lines = [line for gpu in "01" for line in readings("n1", gpu, (0, 1), 0.5)]
    lines += [line for gpu in "01" for line in readings("n2", gpu, (0, 1), 0.0)]
    path.write_bytes(msgspec.json.encode(report(path.parent, jobs, lines)))
    return path
