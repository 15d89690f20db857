"""Slurm's accounting: ``sacct -P``, and ``scontrol -d show job`` for the numbers of GPUs.

``slurm`` asks the clients of this machine, ``slurm:job=ID`` for one job with the memory of its
steps; ``slurm:FILE`` reads the saved output of ``sacct -P`` with its header. The text is read, not
JSON, whose shape differs between versions and which is a build option. The name of a job is the
only field that its user writes: it stands last, behind a delimiter that nobody can know, and in a
saved file it gets the cells that are too many.

Counts of GPUs need ``AccountingStorageTRES=gres/gpu``, which Slurm accepts with slurmdbd only.
Accounting does not say which GPUs of a node a job had. ``scontrol`` says it of running jobs; of
others, telemetry is joined by the job's label, or where the job had all GPUs of a node.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Final

from whyidle.cluster.ledgers._fields import (
    mig_milli,
    mig_profile,
    parse_clock,
    parse_size,
    parse_state,
    parse_time,
)
from whyidle.cluster.ledgers._holdings import add_holdings, read_text
from whyidle.errors import InputError
from whyidle.model.fleet_rows import FleetJob, LedgerRows, NodeRow, Window
from whyidle.model.node_lists import expand_nodes, expand_numbers

FIELDS: Final = (
    *("JobID", "JobIDRaw", "User", "Account", "Partition", "State", "Submit", "Start", "End"),
    *("ElapsedRaw", "TimelimitRaw", "AllocTRES", "ReqTRES", "AllocCPUS", "TotalCPU", "NodeList"),
    "JobName",
)
SAVE: Final = f"SLURM_TIME_FORMAT=%s sacct -aXPD --format={','.join(FIELDS)} > FILE"
"""seconds since the epoch: local times are ambiguous when daylight saving ends"""
ONE: Final = "job="
MEMORY_FIELD: Final = "TRESUsageInTot"
"""of a step: the sum of the peaks of its tasks, as the plug-in jobacct_gather samples them"""
PATIENCE_S: Final = 120.0
"""sacct of a month on a busy cluster takes a minute"""
_TRES: Final = re.compile(r"gres/gpu(?::([^=,]+))?=(\d+)")
_SHARD: Final = re.compile(r"gres/shard(?::[^=,]+)?=[1-9]")
_MEMORY: Final = re.compile(r"(?:^|,)mem=([^,]+)")
_IDX: Final = re.compile(r"gpu[^ (,]*\(IDX:([\d,-]+)\)")
_SWITCH_ON: Final = (
    "Switch on accounting: run slurmdbd, and set AccountingStorageType=accounting_storage/slurmdbd "
    "and AccountingStorageTRES=gres/gpu in slurm.conf."
)


def read(where: str, window: Window) -> LedgerRows:
    """Jobs that ran in the window."""
    rows = LedgerRows()
    job = where.removeprefix(ONE) if where.startswith(ONE) else None
    is_file = bool(where) and job is None
    mark = "|" if is_file else f"|{secrets.token_hex(4)}|"
    text = read_text(where) if is_file else _run_sacct(window, mark, job)
    places = {} if is_file else _read_places(rows)
    if not is_file:
        rows.nodes += parse_nodes(_ask_scontrol("-o", "show", "node") or "")
    parse_accounting(text, rows, places, mark)
    return rows


def _run_sacct(window: Window, mark: str, job: str | None = None) -> str:
    sacct = shutil.which("sacct")
    if sacct is None:
        raise InputError(
            "sacct was not found on this machine.",
            why="It reads Slurm's accounting.",
            hint="Run this on a login node, or save `sacct -aXPD` to a file: --ledger slurm:FILE",
        )
    start, end = (
        datetime.fromtimestamp(moment / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        for moment in (window.start_ms, window.end_ms)
    )
    fields = FIELDS if job is None else (MEMORY_FIELD, *FIELDS)
    command = [sacct, "-a", "-P", "-D", f"--delimiter={mark}", f"--format={','.join(fields)}"]
    command += ["-X", "-S", start, "-E", end] if job is None else ["-j", job]
    # one zone without daylight saving for the question, seconds since the epoch for the answer
    clock = {"TZ": "UTC0", "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            errors="replace", env={**os.environ, **clock},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError("sacct does not answer.", why=f"{error}.") from error
    if done.returncode or not done.stdout.strip():
        why = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        off = "disabled" in done.stderr or "AccountingStorage" in done.stderr
        hint = _SWITCH_ON if off else "Is slurmdbd running?"
        raise InputError("Slurm's accounting cannot be read.", why=f"{why.rstrip('.')}.", hint=hint)
    return done.stdout


def _ask_scontrol(*words: str) -> str | None:
    scontrol = shutil.which("scontrol")
    if scontrol is None:
        return None
    try:
        return subprocess.run(
            [scontrol, *words], capture_output=True, text=True, timeout=30, check=True,
            errors="replace",
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None


def _read_places(rows: LedgerRows) -> dict[str, dict[str, list[str]]]:
    if (shown := _ask_scontrol("-d", "show", "job")) is None:
        rows.notes.append("scontrol does not answer: which GPUs running jobs hold is not known.")
    return parse_places(shown or "")


def parse_places(text: str) -> dict[str, dict[str, list[str]]]:
    """GPU numbers by job and node, from ``scontrol -d show job``."""
    places: dict[str, dict[str, list[str]]] = {}
    for block in re.split(r"(?m)^(?=JobId=)", text):
        job = re.match(r"JobId=(\d+)", block)
        if job is None:
            continue
        for part in re.split(r"(?=\bNodes=)", block)[1:]:
            for node, numbers in _read_part(part):
                places.setdefault(job[1], {})[node] = numbers
    return places


def _read_part(part: str) -> list[tuple[str, list[str]]]:
    """The nodes of a ``Nodes=``, with the numbers of the GPUs that the job has on each."""
    try:
        numbers = [str(n) for found in _IDX.findall(part) for n in expand_numbers(found)]
        nodes = expand_nodes(part.partition(" ")[0].removeprefix("Nodes="))
    except ValueError:
        return []
    return [(node, numbers) for node in nodes if numbers]


def parse_nodes(text: str) -> list[NodeRow]:
    """Nodes with GPUs, from ``scontrol -o show node``."""
    nodes = []
    for line in text.splitlines():
        name = re.search(r"NodeName=(\S+)", line)
        gpus, kind = _count_gpus(_field(line, "CfgTRES"))
        if name and gpus:
            cpus = _field(line, "CPUTot")
            gres = re.search(r"\bGres=gpu:([^:(\s]+):", line)
            row_kind = kind or (gres[1] if gres else None)
            count = float(cpus) if cpus.isdigit() else None
            nodes.append(NodeRow(node=name[1], gpus=gpus, gpu_type=row_kind, cpus=count))
    return nodes


def _field(line: str, name: str) -> str:
    found = re.search(rf"\b{name}=(\S+)", line)
    return found[1] if found else ""


def parse_accounting(
    text: str, rows: LedgerRows, places: Mapping[str, Mapping[str, list[str]]], mark: str = "|"
) -> None:
    """Add the jobs of ``sacct -P``, whose delimiter is ``mark``. Of the attempts of a requeued job
    the last one has the job's id, which Slurm knows it by, and the others ``id~1``, ``id~2``."""
    found: dict[str, dict[tuple[str, ...], dict[str, str]]] = {}
    steps: dict[str, list[dict[str, str]]] = {}
    for record in _split_records(text, rows, mark):
        if "." in record["JobID"]:
            steps.setdefault(record["JobID"].partition(".")[0], []).append(record)
            continue
        attempts = found.setdefault(record["JobID"], {})
        key = tuple(record.get(name, "") for name in ("Start", "End", "State"))
        rows.counts["duplicate rows"] += key in attempts
        attempts[key] = record
    rows.counts += Counter()  # without zeros
    named = False
    for name, attempts in found.items():
        ordered = sorted(attempts.values(), key=_start_order)
        for number, record in enumerate(ordered, 1):
            own = name if number == len(ordered) else f"{name}~{number}"
            try:
                named |= _add_job(own, record, rows, places, steps.get(name, ()))
            except ValueError:
                rows.counts["rows that cannot be read"] += 1
    if rows.jobs and not named:
        rows.notes.append(
            "No job has a count of GPUs. Slurm records them with AccountingStorageTRES=gres/gpu."
        )


def _start_order(record: Mapping[str, str]) -> tuple[bool, str]:
    """Attempts by their start; one that waits comes last."""
    return not record["Start"][:1].isdigit(), record["Start"]


def _split_records(text: str, rows: LedgerRows, mark: str) -> Iterator[dict[str, str]]:
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    head = lines[0].split(mark)
    if missing := [name for name in ("JobID", "State", "Start", "End") if name not in head]:
        why = f"Its header has no {missing[0]}."
        if text.lstrip().startswith("{"):
            why = "It is JSON, whose fields differ between versions of Slurm."
        raise InputError("This is not the output of sacct -P.", why=why, hint=SAVE)
    if "AllocTRES" not in head:
        raise InputError("The output of sacct has no AllocTRES.", why="It counts the GPUs.")
    name = head.index("JobName") if "JobName" in head else len(head)
    for line in lines[1:]:
        cells = line.split(mark)
        if len(cells) == 1 and mark != "|":
            continue  # the second line of a job's name
        if (extra := len(cells) - len(head)) > 0 and name < len(head):
            cells[name : name + extra + 1] = [mark.join(cells[name : name + extra + 1])]
        if len(cells) != len(head):
            rows.counts["incomplete rows"] += 1
            continue
        yield dict(zip(head, cells, strict=True))


def _read_times(record: Mapping[str, str]) -> tuple[int | None, int | None]:
    """When it started and ended. Of local times that the clock showed twice, those that agree with
    the elapsed seconds."""
    elapsed = record.get("ElapsedRaw", "")
    readings = [
        (parse_time(record["Start"], repeated=start), parse_time(record["End"], repeated=end))
        for start in (False, True)
        for end in (False, True)
    ]
    for start, end in readings:
        if start is None or end is None or not elapsed.isdigit():
            break
        if end - start == int(elapsed) * 1000:
            return start, end
    return readings[0]


def _add_job(
    own: str,
    record: Mapping[str, str],
    rows: LedgerRows,
    places: Mapping[str, Mapping[str, list[str]]],
    steps: Iterable[Mapping[str, str]] = (),
) -> bool:
    """Add one attempt of a job under the name ``own``; returns whether it names GPUs."""
    tres = record["AllocTRES"] or record.get("ReqTRES", "")
    gpus, kind = _count_gpus(tres)
    raw = record.get("JobIDRaw") or record["JobID"]
    profile = mig_profile(kind)
    size, limit = _MEMORY.search(tres), record.get("TimelimitRaw", "")
    cpus = record.get("AllocCPUS", "")
    nodes = [] if record.get("NodeList", "").startswith("None") else expand_nodes(
        record.get("NodeList", "")
    )  # fmt: skip
    start, end = _read_times(record)
    state = parse_state(record["State"])
    job = FleetJob(
        job=own,
        ledger="slurm",
        state="completed"
        if state == "running" and end
        else state,  # RESIZING: it goes on elsewhere
        name=record.get("JobName") or None,
        user=record.get("User") or None,
        account=record.get("Account") or None,
        partition=record.get("Partition") or None,
        submit_ms=parse_time(record.get("Submit", "")),
        start_ms=start,
        end_ms=end,
        limit_s=int(limit) * 60 if limit.isdigit() else None,
        gpus=gpus,
        milli=mig_milli(profile),
        profile=profile,
        gpu_type=None if profile else kind,
        cpus=float(cpus) if cpus.isdigit() else None,
        cpu_s=parse_clock(record.get("TotalCPU", "")),
        memory_bytes=parse_size(size[1]) if size else None,
        memory_used_bytes=_measure_memory(steps, start, end),
        nodes=len(nodes) or None,
    )
    elapsed = record.get("ElapsedRaw", "")
    seen_ms = start + int(elapsed) * 1000 if start is not None and elapsed.isdigit() else None
    add_holdings(rows, job, raw, nodes, places.get(raw, {}), seen_ms=seen_ms)
    if _SHARD.search(tres):
        rows.counts["jobs with gres/shard, whose share of a GPU is not counted"] += 1
    return gpus > 0


def _measure_memory(
    steps: Iterable[Mapping[str, str]], start: int | None, end: int | None
) -> int | None:
    """The most host memory that a step of an attempt used, which ran from ``start`` to ``end``."""
    sizes = []
    for step in steps:
        size, began = _MEMORY.search(step.get(MEMORY_FIELD, "")), parse_time(step["Start"])
        if size and began and (start or 0) <= began <= (end or began):
            sizes.append(parse_size(size[1]) or 0)
    return max(sizes, default=0) or None


def _count_gpus(tres: str) -> tuple[int, str | None]:
    """GPUs and their type: the plain count, or else the sum of the typed ones."""
    found = _TRES.findall(tres)
    kinds = [kind for kind, _ in found if kind]
    plain = [int(count) for kind, count in found if not kind]
    total = plain[0] if plain else sum(int(count) for _, count in found)
    return total, kinds[0] if len(kinds) == 1 else None
