"""What would save GPU time in a fleet: each rule one query, with its evidence and its confidence.

Rules judge jobs of which at least ``COVERED`` of the time has telemetry, and expect of the next
window what this one shows. Confidence is high where the readings alone show it, medium where a
change of the job is needed that was not tried, low where its effect was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from whyidle.cluster.report.groups import cause_rows
from whyidle.cluster.report.job_rows import fetch_rows
from whyidle.cluster.report.reading import FleetTables
from whyidle.model.documents.fleet import UNUSED_BUSY, Advice, Confidence, FleetJobRow
from whyidle.model.number_text import MOST_NAMED

COVERED: Final = 0.9
"""of a job's time that must have telemetry: below it, what was not seen may say the opposite"""
LEAST_HOURS: Final = 0.5
"""GPU-hours that a piece of advice must bring to be worth a person's minute"""
MIG_CARDS: Final = "A100|A30|H100|H200|H20|H800|A800|B100|B200|GB200|GB300|B300"
"""cards that can be divided"""
SLICES: Final = ((1, 1), (2, 2), (3, 4), (4, 4))
"""slices as NVIDIA documents them: sevenths of the multiprocessors, eighths of the memory"""
SPARE: Final = 1.2
"""memory to ask for, of the peak: sampling misses short peaks"""
MUCH: Final = 2.0
"""times what was used, from which less is worth asking for: less than that is a fair reserve"""
_LEAST_JOBS: Final = 20
"""of which a 95th percentile is taken"""
_CORES: Final = "cpu_s / nullif((end_ms - start_ms) / 1000, 0)"
"""cores that a job used, over its whole length"""
_MERGED: Final = f"""
WITH merged AS (
  SELECT job, any_value("user") AS owner, any_value(state) AS state, sum(allocated) AS allocated,
    sum(useful) AS useful, sum(starved) AS starved, sum(idle_held + idle_reserved) AS idle,
    sum(failed) AS failed, sum(cluster) AS cluster,
    sum(covered) / nullif(sum(allocated), 0) AS coverage
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


def _count_jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _advise(
    kind: str, row: dict[str, Any], text: str, confidence: Confidence, share: float = 1.0
) -> Advice:
    text = f"{row['owner']}: {text.format(count=_count_jobs(row['count']))}"
    hours = None if row["hours"] is None else row["hours"] * share
    return Advice(
        kind=kind, subject=row["owner"], text=text, evidence=row["notes"], gpu_hours=hours,
        confidence=confidence, jobs=row["jobs"],
    )  # fmt: skip


class OwnerRule(NamedTuple):
    """Advice to owners: jobs of ``judged`` that meet a condition, the GPU time that each saves, a
    note on each, and what to say (``{count}`` jobs). Half of what is saved is expected of a change
    that was not tried."""

    kind: str
    condition: str
    saved: str
    note: str
    text: str
    confidence: Confidence
    share: float = 1.0

    def advise(self, fleet: FleetTables) -> list[Advice]:
        """Ask each owner of such jobs."""
        query = f"""{_MERGED}
        SELECT coalesce(owner, '?') AS owner, count(*) AS count, sum({self.saved}) / 3.6e6 AS hours,
          list(job ORDER BY {self.saved} DESC)[:50] AS jobs,
          list({self.note} ORDER BY {self.saved} DESC)[:{MOST_NAMED}] AS notes
        FROM judged WHERE {self.condition} GROUP BY 1 ORDER BY hours DESC"""
        return [
            _advise(self.kind, row, self.text, self.confidence, self.share)
            for row in fetch_rows(fleet.connection, query)
        ]


_HELD: Final = (
    "format('{} held {} for {:.1f} h', job, "
    "if(gpus = 1, '1 GPU', gpus || ' GPUs'), allocated / 3.6e6 / gpus)"
)
_SEVENTHS: Final = "ceil(sm_peak * 7)"
_EIGHTHS: Final = "ceil(memory_p95 * 1.2 / capacity * 8)"
_SIZES: Final = " ".join(
    f"WHEN {_SEVENTHS} <= {sm} AND {_EIGHTHS} <= {memory} THEN {sm}" for sm, memory in SLICES
)
_SIZE: Final = f"(CASE {_SIZES} END)"
_SLICE_EIGHTHS: Final = (
    f"CASE {_SIZE} {' '.join(f'WHEN {sm} THEN {memory}' for sm, memory in SLICES)} END"
)
OWNER_RULES: Final = (
    OwnerRule(
        "fewer-gpus", f"unused > 0 AND unused < gpus AND busy_peak >= {UNUSED_BUSY}",
        "allocated * unused / gpus",
        "format('{} of {} GPUs of {} stayed below 1 % busy', unused, gpus, job)",
        "ask for fewer GPUs; {count} kept some below 1 % busy throughout", "high",
    ),
    OwnerRule(
        "release", "busy_peak = 0", "allocated", _HELD,
        "release GPUs that are not used; {count} read 0 % busy in every sample", "high",
    ),
    OwnerRule(  # some kernel ran, so whether the job can do without a GPU its owner knows
        "release", f"busy_peak > 0 AND busy_peak < {UNUSED_BUSY}", "allocated", _HELD,
        "release GPUs that are hardly used, or share one; {count} stayed below 1 % busy", "medium",
        share=0.5,
    ),
    # loading and launching work compete for cores: more than nine tenths of all, over the whole
    # job, is only reached where some were short
    OwnerRule(
        "more-cpus", f"{_CORES} > 0.9 * cpus AND busy < 0.7 AND gpus > 0", "starved",
        f"format('{{}} used {{:.1f}} of {{:.0f}} cores, GPUs busy {{:.0f}} %', job, {_CORES}, "
        "cpus, busy * 100)",
        "ask for more CPUs per GPU; {count} used all of theirs while GPUs waited", "medium",
        share=0.5,
    ),
    # whole cards whose work fits into a slice: the 95th percentile of the hourly memory peaks with
    # a margin of a fifth, and the largest share of multiprocessors of any sample. busy is no share
    # of multiprocessors, so jobs without sm are not judged
    OwnerRule(
        "mig-slice",
        f"regexp_matches(coalesce(gpu_type, ''), '{MIG_CARDS}', 'i') AND milli = 1000 "
        f"AND sm_peak > 0 AND capacity > 0 AND {_SIZE} IS NOT NULL",
        f"allocated * (1 - {_SIZE} / 7)",
        "format('{} fits into {}g.{}gb: {:.0f} GiB, {:.0f} % of the multiprocessors', job, "
        f"{_SIZE}, {_SLICE_EIGHTHS} * round(capacity / 8 / 1073741824)::INTEGER, "
        "memory_p95 / 1073741824, sm_peak * 100)",
        "ask for MIG slices; {count} used part of a card", "medium",
    ),
    # two fit on a card; how much they slow each other down was not measured
    OwnerRule(
        "share",
        f"gpus = 1 AND milli = 1000 AND busy BETWEEN {UNUSED_BUSY} AND 0.3 "
        "AND memory_p95 < 0.4 * capacity AND failed = 0 AND cluster = 0",
        "allocated / 2",
        "format('{} is busy {:.0f} %, with {:.0f} GiB', job, busy * 100, memory_p95 / 1073741824)",
        "let two jobs share a GPU (MPS or time slices); {count} leave most of theirs idle", "low",
    ),
)  # fmt: skip


def fix_causes(fleet: FleetTables) -> list[Advice]:
    """Proven causes of starved time, with their first fix. It recovers what the cause cost at most;
    half is expected, as of a fix that was not tried."""
    return [
        Advice(
            kind="fix-cause", subject=row.cause, gpu_hours=row.gpu_hours / 2, confidence="medium",
            text=f"{row.title}: {row.fix}" if row.fix else row.title, jobs=[],
            evidence=[f"proven by whyidle runs of {_count_jobs(row.jobs)}"],
        )
        for row in cause_rows(fleet)
        if row.cause is not None
    ]  # fmt: skip


def find_cpu_surplus(fleet: FleetTables) -> list[Advice]:
    """Jobs that asked for more than twice their GPUs' part of a node's cores and used less than a
    quarter: GPUs beside them cannot be given to anyone."""
    rows = fetch_rows(
        fleet.connection,
        f"""{_MERGED}, shape AS (
          SELECT median(cpus / gpus) AS per_gpu FROM nodes WHERE gpus > 0 AND cpus > 0
        )
        SELECT coalesce(owner, '?') AS owner, count(*) AS count,
          sum(floor(cpus / per_gpu - gpus) * allocated / gpus) / 3.6e6 AS hours,
          list(job)[:50] AS jobs, list(format('{{}} used {{:.1f}} of {{:.0f}} cores for {{}} GPUs',
            job, {_CORES}, cpus, gpus))[:{MOST_NAMED}] AS notes
        FROM judged, shape WHERE cpus > 2 * per_gpu * gpus AND {_CORES} < 0.25 * cpus
        GROUP BY 1""",
    )
    text = "ask for fewer CPUs per GPU; they block other GPUs of the node"
    return [_advise("fewer-cpus", row, text, "low") for row in rows]


def find_long_limits(fleet: FleetTables) -> list[Advice]:
    """Users whose completed jobs need less than a quarter of their time limit, nineteen of twenty:
    shorter limits let the scheduler fill gaps with them."""
    rows = fetch_rows(
        fleet.connection,
        f"""
        SELECT "user" AS owner, count(*) AS count, NULL AS hours, list(job)[:50] AS jobs,
          [format('nineteen of twenty end within {{:.0f}} % of their limit',
            quantile_cont((end_ms - start_ms) / 1000 / limit_s, 0.95) * 100)] AS notes
        FROM jobs WHERE state = 'completed' AND limit_s > 0 AND "user" IS NOT NULL AND gpus > 0
        GROUP BY 1 HAVING count(*) >= {_LEAST_JOBS}
          AND quantile_cont((end_ms - start_ms) / 1000 / limit_s, 0.95) < 0.25""",
    )
    text = "ask for shorter time limits, so that jobs fill gaps"
    return [_advise("shorter-limit", row, text, "medium") for row in rows]


RULES: Final[tuple[Callable[[FleetTables], list[Advice]], ...]] = (
    *(rule.advise for rule in OWNER_RULES),
    fix_causes,
    find_cpu_surplus,
    find_long_limits,
)


def suggest_request(job: FleetJobRow) -> Iterator[str]:
    """What one job should ask for next time, the costliest resource first. One that failed or still
    runs has not shown what it needs. Fewer cores are never proposed: their mean hides the peaks in
    which a loader needs them."""
    if job.state != "completed":
        return
    if job.coverage >= COVERED and job.busy_peak is not None:
        if job.busy_peak == 0.0:
            yield "no GPU (all read 0 % busy in every sample)"
        elif job.busy_peak < UNUSED_BUSY:
            yield "part of a GPU, or none (all stayed below 1 % busy)"
        elif job.unused_gpus and (left := job.gpus - job.unused_gpus) > 0:
            words = f"{left} GPU{'s' * (left > 1)} instead of {job.gpus}"
            yield f"{words} ({job.unused_gpus} stayed below 1 % busy)"
    is_starved = job.account.gpu_ms["starved"] > job.account.gpu_ms["useful"]
    if is_starved and job.cpus and (job.cores_used or 0) >= 0.9 * job.cpus:
        yield f"more than {job.cpus:.0f} cores (all were in use while the GPUs waited)"
    asked, used = (job.host_memory_bytes or 0) / 1e9, (job.host_memory_used_bytes or 0) / 1e9
    if used and (enough := math.ceil(used * SPARE)) <= asked / MUCH:
        yield f"{enough} GB of memory instead of {asked:.0f} (the peak and a fifth)"
    if job.start and job.end and job.limit_s:  # Python 3.10 does not read the Z
        start, end = (datetime.fromisoformat(text.rstrip("Z")) for text in (job.start, job.end))
        took = (end - start).total_seconds()
        if job.limit_s >= MUCH * took > 0:
            minutes = math.ceil(took * 1.5 / 60)  # machines and data differ from run to run
            limit = f"{minutes // 60}:{minutes % 60:02}:00"
            yield f"--time={limit} (it may start earlier, in gaps that long jobs leave)"
