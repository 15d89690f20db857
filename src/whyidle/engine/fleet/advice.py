"""What would save GPU time in a fleet: each rule one query, with its evidence and its confidence.

Rules judge jobs of which at least ``COVERED`` of the time has telemetry, and expect of the next
window what this one shows. Confidence is high where the readings alone show it, medium where a
change of the job is needed that was not tried, low where its effect was not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from whyidle.engine.fleet.job_rows import fetch_rows
from whyidle.engine.fleet.reading import FleetTables
from whyidle.model.fleet import IDLE_BUSY, Advice, Confidence

COVERED: Final = 0.9
"""of a job's time that must have telemetry: below it, what was not seen may say the opposite"""
LEAST_HOURS: Final = 0.5
"""GPU-hours that a piece of advice must bring to be worth a person's minute"""
_NAMED: Final = 3
_MERGED: Final = f"""
WITH merged AS (
  SELECT job, any_value("user") AS owner, any_value(state) AS state, sum(allocated) AS allocated,
    sum(useful) AS useful, sum(starved) AS starved, sum(idle_held + idle_reserved) AS idle,
    sum(failed) AS failed, sum(covered) / nullif(sum(allocated), 0) AS coverage
  FROM priced GROUP BY job
), judged AS (
  SELECT merged.*, jobs.* EXCLUDE (job, state), uses.* EXCLUDE (job) FROM merged
  JOIN jobs USING (job) JOIN uses USING (job) WHERE coverage >= {COVERED}
)
"""
"""tables of queries: one row for each job"""


def give_advice(fleet: FleetTables) -> list[Advice]:
    """The changes that would save the most, first; those without a number last."""
    found = [advice for rule in RULES for advice in rule(fleet)]
    worth = [one for one in found if one.gpu_hours is None or one.gpu_hours >= LEAST_HOURS]
    return sorted(worth, key=lambda one: -(one.gpu_hours or 0))


def _group_by_owner(
    fleet: FleetTables, condition: str, saved: str, note: str
) -> list[dict[str, Any]]:
    """Jobs that meet a condition, by owner, with the GPU-hours that each saves and notes."""
    return fetch_rows(
        fleet.connection,
        f"""{_MERGED}
        SELECT coalesce(owner, '?') AS owner, count(*) AS count,
          sum({saved}) / 3.6e6 AS hours, sum(allocated) / 3.6e6 AS allocated,
          list(job ORDER BY {saved} DESC)[:50] AS jobs,
          list({note} ORDER BY {saved} DESC)[:{_NAMED}] AS notes
        FROM judged WHERE {condition} GROUP BY 1 ORDER BY hours DESC""",
    )


def _count_jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _advise(
    kind: str, row: dict[str, Any], text: str, confidence: Confidence, share: float = 1.0
) -> Advice:
    return Advice(
        kind=kind,
        subject=row["owner"],
        text=text,
        evidence=row["notes"],
        gpu_hours=row["hours"] * share,
        confidence=confidence,
        jobs=row["jobs"],
    )


def find_unused_gpus(fleet: FleetTables) -> list[Advice]:
    """Jobs that used some of their GPUs and never the others."""
    rows = _group_by_owner(
        fleet,
        f"unused > 0 AND unused < gpus AND busy_peak >= {IDLE_BUSY}",
        "allocated * unused / gpus",
        "format('{} used {} of {} GPUs', job, gpus - unused, gpus)",
    )
    return [
        _advise(
            "fewer-gpus",
            row,
            f"{row['owner']}: ask for fewer GPUs; {_count_jobs(row['count'])} never used some",
            "high",
        )
        for row in rows
    ]


def find_idle_jobs(fleet: FleetTables) -> list[Advice]:
    """Jobs that ran no kernel on any of their GPUs, from their first sample to their last."""
    rows = _group_by_owner(
        fleet,
        f"busy_peak < {IDLE_BUSY}",
        "allocated",
        "format('{} held {} GPUs for {:.1f} h', job, gpus, allocated / 3.6e6 / gpus)",
    )
    return [
        _advise(
            "release",
            row,
            f"{row['owner']}: release GPUs that run nothing; "
            f"{_count_jobs(row['count'])} ran no kernel",
            "high",
        )
        for row in rows
    ]


RULES: Final[tuple[Callable[[FleetTables], list[Advice]], ...]] = (
    find_unused_gpus,
    find_idle_jobs,
)
