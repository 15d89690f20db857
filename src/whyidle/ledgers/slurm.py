"""Slurm's accounting: ``sacct -P``, and ``scontrol -d show job`` for the numbers of GPUs.

``slurm`` asks the clients of this machine; ``slurm:FILE`` reads the saved output of ``sacct -P``
with its header. The text is read rather than JSON, whose shape differs between versions and which
is a build option.

Counts of GPUs need ``AccountingStorageTRES=gres/gpu``, which Slurm accepts with slurmdbd only.
Accounting does not say which GPUs of a node a job had. ``scontrol`` says it of running jobs; of
others, telemetry is joined by the job's label, or where the job had all GPUs of a node.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final

from whyidle.errors import InputError
from whyidle.ledgers._fields import (
    format_time,
    mig_milli,
    parse_clock,
    parse_size,
    parse_state,
    parse_time,
)
from whyidle.ledgers._holdings import add_holdings, read_text
from whyidle.model.fleet_rows import WHOLE, FleetJob, LedgerRows, NodeRow, Window
from whyidle.model.node_lists import expand_nodes, expand_numbers

FIELDS: Final = (
    *("JobID", "JobIDRaw", "JobName", "User", "Account", "Partition", "State", "Submit", "Start"),
    *("End", "TimelimitRaw", "AllocTRES", "ReqTRES", "AllocCPUS", "TotalCPU", "NodeList"),
)
PATIENCE_S: Final = 120.0
"""sacct of a month on a busy cluster takes a minute"""
_TRES: Final = re.compile(r"gres/gpu(?::([^=,]+))?=(\d+)")
_MEMORY: Final = re.compile(r"(?:^|,)mem=([^,]+)")
_IDX: Final = re.compile(r"gpu[^ (,]*\(IDX:([\d,-]+)\)")
_SWITCH_ON: Final = (
    "Switch on accounting: run slurmdbd, and set AccountingStorageType=accounting_storage/slurmdbd "
    "and AccountingStorageTRES=gres/gpu in slurm.conf."
)


def read(where: str, window: Window) -> LedgerRows:
    """Jobs that ran in the window."""
    rows = LedgerRows()
    text = read_text(where) if where else _run_sacct(window)
    places = {} if where else _read_places(rows)
    if not where:
        rows.nodes += parse_nodes(_ask_scontrol("-o", "show", "node") or "")
    parse_accounting(text, rows, places)
    return rows


def _run_sacct(window: Window) -> str:
    sacct = shutil.which("sacct")
    if sacct is None:
        raise InputError(
            "There is no sacct on this machine.",
            why="It reads Slurm's accounting.",
            hint="Run this on a login node, or save `sacct -aXP` to a file: --ledger slurm:FILE",
        )
    command = [sacct, "-a", "-X", "-P", "-D", "-S", format_time(window.start_ms)]
    command += ["-E", format_time(window.end_ms), f"--format={','.join(FIELDS)}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            errors="replace",
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
    shown = _ask_scontrol("-d", "show", "job")
    if shown is None:
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
            nodes.append(
                NodeRow(
                    node=name[1],
                    gpus=gpus,
                    gpu_type=kind or (gres[1] if gres else None),
                    cpus=float(cpus) if cpus.isdigit() else None,
                )
            )
    return nodes


def _field(line: str, name: str) -> str:
    found = re.search(rf"\b{name}=(\S+)", line)
    return found[1] if found else ""


def parse_accounting(
    text: str, rows: LedgerRows, places: Mapping[str, Mapping[str, list[str]]]
) -> None:
    """Add the jobs of ``sacct -P``."""
    seen: set[tuple[str, ...]] = set()
    attempts: dict[str, int] = {}
    named = False
    for record in _split_records(text, rows):
        if "." in record["JobID"]:
            continue  # a step of the job
        key = tuple(record.get(name, "") for name in ("JobID", "Start", "End", "State"))
        if key in seen:
            rows.counts["duplicate rows"] += 1
            continue
        seen.add(key)
        try:
            named |= _add_job(record, rows, attempts, places)
        except ValueError:
            rows.counts["rows that cannot be read"] += 1
    if rows.jobs and not named:
        rows.notes.append(
            "No job has a count of GPUs. Slurm records them with AccountingStorageTRES=gres/gpu."
        )


def _split_records(text: str, rows: LedgerRows) -> Iterator[dict[str, str]]:
    lines = text.splitlines()
    head = lines[0].split("|") if lines else []
    if missing := [name for name in ("JobID", "State", "Start", "End") if name not in head]:
        raise InputError(
            "This is no output of sacct -P.",
            why=f"Its header has no {missing[0]}.",
            hint=f"sacct -aXP --format={','.join(FIELDS)} > FILE",
        )
    if "AllocTRES" not in head:
        raise InputError("The output of sacct has no AllocTRES.", why="It counts the GPUs.")
    for line in lines[1:]:
        cells = line.split("|")
        if len(cells) != len(head):
            rows.counts["incomplete rows"] += 1
            continue
        yield dict(zip(head, cells, strict=True))


def _add_job(
    record: Mapping[str, str],
    rows: LedgerRows,
    attempts: dict[str, int],
    places: Mapping[str, Mapping[str, list[str]]],
) -> bool:
    """Add one job; returns whether it names GPUs."""
    state = parse_state(record["State"])
    tres = record["AllocTRES"] or record.get("ReqTRES", "")
    gpus, kind = _count_gpus(tres)
    name, raw = record["JobID"], record.get("JobIDRaw") or record["JobID"]
    attempts[name] = attempts.get(name, 0) + 1
    profile = kind if mig_milli(kind) != WHOLE else None
    size, limit = _MEMORY.search(tres), record.get("TimelimitRaw", "")
    cpus = record.get("AllocCPUS", "")
    nodes = [] if record.get("NodeList", "").startswith("None") else expand_nodes(
        record.get("NodeList", "")
    )  # fmt: skip
    job = FleetJob(
        job=name if attempts[name] == 1 else f"{name}~{attempts[name]}",
        ledger="slurm",
        state=state,
        name=record.get("JobName") or None,
        user=record.get("User") or None,
        account=record.get("Account") or None,
        partition=record.get("Partition") or None,
        submit_ms=parse_time(record.get("Submit", "")),
        start_ms=parse_time(record["Start"]),
        end_ms=parse_time(record["End"]),
        limit_s=int(limit) * 60 if limit.isdigit() else None,
        gpus=gpus,
        milli=mig_milli(profile),
        profile=profile,
        gpu_type=None if profile else kind,
        cpus=float(cpus) if cpus.isdigit() else None,
        cpu_s=parse_clock(record.get("TotalCPU", "")),
        memory_bytes=parse_size(size[1]) if size else None,
        nodes=len(nodes) or None,
    )
    add_holdings(rows, job, raw, nodes, places.get(raw, {}))
    return gpus > 0


def _count_gpus(tres: str) -> tuple[int, str | None]:
    """GPUs and their type: the plain count, or else the sum of the typed ones."""
    found = _TRES.findall(tres)
    kinds = [kind for kind, _ in found if kind]
    plain = [int(count) for kind, count in found if not kind]
    total = plain[0] if plain else sum(int(count) for _, count in found)
    return total, kinds[0] if len(kinds) == 1 else None
