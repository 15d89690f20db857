"""Jobs of Slurm.

Control groups come in several shapes: ``/slurm/uid_U/job_J/step_S`` and ``/slurm_NODE/uid_U/...``
(version 1), ``slurmstepd.scope/job_J`` and ``NODE_slurmstepd.scope/job_J`` (version 2). Slurm 26.05
writes a SLUID in place of the job's number; then, and where Slurm does not use control groups, the
number is in the environment of the process.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping

from whyidle.model.documents.watch_document import Tenant
from whyidle.model.live.tenancy import ProcessIdentity, Reservation
from whyidle.model.node_lists import expand_nodes, expand_numbers

RANK = 10
PATIENCE_S = 3.0
"""for an answer: an unreachable controller keeps clients waiting for minutes"""
_GROUP = re.compile(
    r"/(?:slurm(?:_[^/\n]+)?/uid_\d+|[^/\n]*slurmstepd\.scope)/(?:job_)?(\w+)(?:/step_(\w+))?"
)
_ENVIRON = {"SLURM_JOB_NAME": "name", "SLURM_JOB_PARTITION": "partition", "SLURM_PROCID": "rank"}
_FIELD = re.compile(r"(\S+?)=(\S*)")
_IDX = re.compile(r"gpu[^ (]*\(IDX:([\d,-]+)\)")


def identify(process: ProcessIdentity) -> Tenant | None:
    """The job, with the labels ``slurm_job``, ``step``, ``partition``, ``name`` and ``rank``."""
    environ = process.environ or {}
    found = _GROUP.search(process.cgroup)
    job = found[1] if found and found[1].isdigit() else environ.get("SLURM_JOB_ID")
    if job is None and found:
        job = found[1]  # a SLUID, which still tells jobs apart
    if job is None:
        return None
    labels = {"slurm_job": job}
    if step := (found[2] if found else None) or environ.get("SLURM_STEP_ID"):
        labels["step"] = step
    labels |= {label: environ[name] for name, label in _ENVIRON.items() if name in environ}
    return Tenant(kind="slurm", job=job, labels=labels)


def reserve() -> list[Reservation]:
    """GPUs of this machine that running jobs hold, as far as ``scontrol`` answers."""
    scontrol, hostname = shutil.which("scontrol"), shutil.which("hostname")
    if scontrol is None or hostname is None:
        return []
    try:
        shown, name = (
            subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE_S, check=True
            ).stdout
            for command in ([scontrol, "-d", "-o", "show", "job"], [hostname, "-s"])
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_jobs(shown, name.strip())


def parse_jobs(text: str, node: str) -> list[Reservation]:
    """Reservations on a node, from the output of ``scontrol -d show job``."""
    found = []
    for block in re.split(r"(?m)^(?=JobId=)", text):
        fields: Mapping[str, str] = dict(_FIELD.findall(block))
        if fields.get("JobState") != "RUNNING":
            continue
        ordinals = _ordinals_on(block, node)
        if ordinals:
            user = fields.get("UserId", "").partition("(")[0] or None
            labels = {"slurm_job": fields["JobId"], "partition": fields.get("Partition", "")}
            labels |= {"name": fields["JobName"]} if "JobName" in fields else {}
            job = fields["JobId"]
            found.append(Reservation(job=job, user=user, ordinals=ordinals, labels=labels))
    return found


def _ordinals_on(block: str, node: str) -> tuple[int, ...]:
    for part in re.split(r"(?=\bNodes=)", block)[1:]:
        if node in expand_nodes(part.partition(" ")[0].removeprefix("Nodes=")):
            return tuple(n for match in _IDX.findall(part) for n in expand_numbers(match))
    return ()
