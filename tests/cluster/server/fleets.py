"""A report of a small fleet, as ``whyidle fleet report --json`` writes it."""

from __future__ import annotations

from pathlib import Path

from whyidle.__main__ import main

JOBS = """job_id,user,vc,gpu_num,node,state,start_time,end_time
1,alice,a,2,n1,COMPLETED,2026-11-20T00:00:00Z,2026-11-20T01:00:00Z
2,<b>bob</b>,b,2,n2,COMPLETED,2026-11-20T00:00:00Z,2026-11-20T01:00:00Z
"""


def write_fleet(path: Path) -> Path:
    folder = path.parent
    (folder / "jobs.csv").write_text(JOBS)
    rows = ["timestamp,hostname,index,utilization.gpu [%],memory.used [MiB]"]
    for minute in range(1, 61):
        time = f"2026-11-20T{minute // 60:02}:{minute % 60:02}:00Z"
        rows += [f"{time},n1,{gpu},50 %,9000 MiB" for gpu in (0, 1)]
        rows += [f"{time},n2,{gpu},0 %,9000 MiB" for gpu in (0, 1)]
    (folder / "readings.csv").write_text("\n".join(rows))
    status = main(
        [
            *("fleet", "report", "-q", "--ledger", f"csv:{folder / 'jobs.csv'}"),
            *("--meter", f"csv:{folder / 'readings.csv'}", "--since", "all"),
            *("--cache", str(folder / "cache"), "--json", str(path)),
        ]
    )
    assert status == 0
    return path
