"""A report over a large fleet: ``python bench/fleet_scale.py [--gpus 10000] [--days 30]``.

Makes readings of two metrics in Parquet, one file a day, and a ledger of jobs in ``build/bench``,
runs ``whyidle fleet report`` on them and prints its time and its peak memory. The default is
8.64e7 readings (10,000 GPUs, 30 days, 5 minutes) and 150,000 jobs.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import duckdb

START = int(datetime(2026, 10, 1, tzinfo=timezone.utc).timestamp()) * 1000
DAY_MS = 86_400_000
PERIOD_MS = 300_000


def make_fleet(folder: Path, gpus: int, days: int, jobs: int) -> None:
    """Write the files: each GPU has jobs one after another; a sixth of them is idle."""
    folder.mkdir(parents=True, exist_ok=True)
    db = duckdb.connect()
    db.execute("SET threads = 2; SET memory_limit = '2GB'; SET enable_progress_bar = false")
    per_gpu = max(1, jobs // gpus)
    length = days * DAY_MS // per_gpu
    db.execute(
        f"""COPY (SELECT 'job' || (g * {per_gpu} + k) AS job,
        'user' || (hash(g, k) % 400) AS "user", 'part' || (g // 2000) AS "partition",
        1 AS gpus, 'node' || (g // 8) AS node, g % 8 AS gpu_ids,
        CASE hash(k, g) % 9 WHEN 0 THEN 'FAILED' ELSE 'COMPLETED' END AS state,
        ({START} + k * {length} + hash(g, k, 1) % {length // 10}) / 1000 AS start,
        ({START} + k * {length} + {length} * 9 // 10) / 1000 AS "end"
        FROM range({gpus}) g(g), range({per_gpu}) k(k)) TO '{folder / "jobs.csv"}'"""
    )
    for day in range(days):
        first = START + day * DAY_MS
        db.execute(
            f"COPY (SELECT {first} + (s + 1) * {PERIOD_MS} AS time_ms, 'node' || (g // 8) AS node,"
            f" CAST(g % 8 AS VARCHAR) AS gpu, CAST(CASE WHEN hash(g, {day}) % 6 = 0 THEN 0"
            f" ELSE (hash(g, s) % 100) / 100.0 END AS FLOAT) AS busy,"
            f" CAST(hash(g, {day}) % 80 AS BIGINT) * 1073741824 AS memory_bytes"
            f" FROM range({DAY_MS // PERIOD_MS}) s(s), range({gpus}) g(g) ORDER BY s)"
            f" TO '{folder / f'day{day:02}.parquet'}' (FORMAT parquet)"
        )


def _cpu_seconds() -> float:
    """CPU time of the processes that ended: elapsed time says little on a machine in use."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Make what is missing, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=150_000)
    args = parser.parse_args()
    folder = Path("build") / "bench" / f"fleet-{args.gpus}-{args.days}-{args.jobs}"
    if not folder.exists():
        make_fleet(folder, args.gpus, args.days, args.jobs)
    cache = folder / "cache"
    for name in ("first", "again"):
        if name == "first":
            shutil.rmtree(cache, ignore_errors=True)
        before, cpu_before = time.perf_counter(), _cpu_seconds()
        subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "whyidle",
                    "fleet",
                    "report",
                    "--since",
                    "2026-10-01T00:00Z",
                ),
                *("--until", f"2026-10-{args.days + 1:02}T00:00Z", "--cache", str(cache), "-q"),
                *("--ledger", f"csv:{folder / 'jobs.csv'}", "--meter", f"parquet:{folder}/day*"),
                *("--json", str(folder / "report.json")),
            ],
            check=True,
        )
        seconds = time.perf_counter() - before
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        rows = args.gpus * args.days * DAY_MS // PERIOD_MS
        cpu = _cpu_seconds() - cpu_before
        print(
            f"{name}: {rows:.3g} readings, {seconds:.1f} s, {cpu:.1f} s of CPU, "
            f"peak {peak:,.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
