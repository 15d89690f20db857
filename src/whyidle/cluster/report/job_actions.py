"""Decides what to do about jobs that waste GPUs, and does it where a policy and the user agree.

Everything that makes the readings doubtful is a reason to do nothing at all: telemetry that is old
or incomplete, meters that disagree, or more jobs than the policy lets be hit at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

import msgspec

from whyidle.errors import InputError, OutputError
from whyidle.model.documents.fleet import FleetJobRow, FleetReport
from whyidle.model.documents.fleet_policy import (
    Action,
    ActionPlan,
    ActionPolicy,
    ActionRule,
    Exemptions,
    LogEntry,
)
from whyidle.model.fleet_rows import FleetJob

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PERIODS: Final = 3.0
"""sampling periods after which the newest sample is old, at least ``ActionPolicy.stale_s``"""
TIMEOUT_S: Final = 30.0
"""for a scheduler's command, or the program that tells an owner"""
ENDING_S: Final = 60.0
"""in which a cancelled job must have ended: twice Slurm's KillWait, after which it is killed"""
RESIZED: Final = "resize"


def read_policy(path: Path) -> ActionPolicy:
    """Read a policy from TOML.

    Raises:
        InputError: it cannot be read, or has keys or values that are not known.
    """
    try:
        policy = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), ActionPolicy)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {path}.", why=f"{error}.") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(
            f"{path} is not a policy.", why=f"{error}.", hint="See docs/how-to/fleet.md."
        ) from error
    cancels = [rule for rule in policy.rule if rule.action == "cancel"]
    if not policy.rule and not policy.resize:
        raise InputError(f"{path} contains no rule.", hint="Add a [[rule]], or resize = true.")
    if policy.most < 1 or not 0.0 < policy.least_coverage <= 1.0:
        raise InputError(
            f"{path} is not a policy.", why="most and least_coverage must be positive."
        )
    if any(rule.warnings > 0 for rule in cancels) and not policy.notify:
        raise InputError(
            f"{path} has no way to warn users.",
            why="A rule cancels jobs after warnings, but `notify` names no program that sends "
            "them.",
            hint='notify = ["/usr/local/bin/tell-owner"], or warnings = 0',
        )
    return policy


def plan_actions(
    report: FleetReport,
    policy: ActionPolicy,
    *,
    pending: Sequence[FleetJob],
    log: Sequence[LogEntry],
    now: datetime,
) -> ActionPlan:
    """Decide what a policy would do now.

    Args:
        report: of a window that ends now.
        policy: what may be done.
        pending: jobs that wait.
        log: the audit log, which knows earlier warnings.
        now: the present, with its time zone.
    """
    actions: list[Action] = []
    waiting: list[str] = []
    exempt: list[str] = []
    for row in report.jobs:
        rule = next((rule for rule in policy.rule if _is_idle(row, rule, policy, now)), None)
        if rule is None:
            continue
        if _is_exempt(policy.exempt, row):
            exempt.append(row.job)
        elif (action := _next_action(row, rule, log, now)) is not None:
            actions.append(action)
        else:
            waiting.append(row.job)
    if policy.resize:
        actions += [
            action
            for job in pending
            if (action := _propose_resize(job, report.jobs)) is not None
            and not _is_exempt(policy.exempt, job)
            and not any(entry.job == job.job and entry.verb == RESIZED for entry in log)
        ]
    return ActionPlan(
        time=now.isoformat(timespec="seconds"),
        refused=list(_doubts(report, policy, actions, now)),
        actions=actions,
        waiting=waiting,
        exempt=exempt,
    )


def _doubts(
    report: FleetReport, policy: ActionPolicy, actions: Sequence[Action], now: datetime
) -> Iterator[str]:
    seen = report.coverage
    old_s = max(policy.stale_s, PERIODS * (seen.period_s or 0.0))
    if seen.latest_sample is None:
        yield "there is no telemetry"
    else:
        age_s = (now - datetime.fromisoformat(_utc(seen.latest_sample))).total_seconds()
        if age_s > old_s:
            yield f"the newest sample is {age_s:.0f} s old, more than {old_s:.0f} s"
    if seen.telemetry < policy.least_coverage:
        yield (
            f"{seen.telemetry:.0%} of the allocated time has telemetry, less than "
            f"{policy.least_coverage:.0%}"
        )
    if seen.disagreeing_hours:
        yield f"two meters disagree in {seen.disagreeing_hours} GPU-hours"
    if len(actions) > policy.most:
        yield f"{len(actions)} jobs would be hit, more than {policy.most} (most)"


def _utc(text: str) -> str:
    return text.replace("Z", "+00:00")


def _is_idle(row: FleetJobRow, rule: ActionRule, policy: ActionPolicy, now: datetime) -> bool:
    if row.state != "running" or row.idle_since is None or row.last_sample is None:
        return False
    if row.coverage < policy.least_coverage:
        return False
    last = datetime.fromisoformat(_utc(row.last_sample))
    idle = last - datetime.fromisoformat(_utc(row.idle_since))
    if idle.total_seconds() < rule.idle_s or (now - last).total_seconds() > policy.stale_s:
        return False
    spent = row.account.gpu_ms
    held = spent.get("idle-held", 0) >= spent.get("idle-reserved", 0)
    return (rule.state == "idle-held") == held


def _is_exempt(exempt: Exemptions, row: FleetJobRow | FleetJob) -> bool:
    account = row.account_name if isinstance(row, FleetJobRow) else row.account
    return (
        row.job in exempt.jobs
        or row.user in exempt.users
        or account in exempt.accounts
        or row.partition in exempt.partitions
        or row.name in exempt.names
    )


def _next_action(
    row: FleetJobRow, rule: ActionRule, log: Sequence[LogEntry], now: datetime
) -> Action | None:
    """The next warning, the end of the job, or None while a warning is recent. A warning counts
    while the job has been idle ever since, and for as long as the policy says."""
    since = max(
        datetime.fromisoformat(_utc(row.idle_since or "")), now - timedelta(seconds=rule.expire_s)
    )
    given = [
        moment
        for entry in log
        if entry.job == row.job and entry.user == row.user
        and entry.verb == "warn" and entry.event == "done"
        and (moment := datetime.fromisoformat(entry.time)) >= since
    ]  # fmt: skip
    if given and (now - max(given)).total_seconds() < rule.every_s:
        return None
    reason = f"{rule.state} since {row.idle_since} on {row.gpus} GPUs"
    if rule.action == "cancel" and len(given) >= rule.warnings:
        command = ["scancel", row.job] if row.ledger == "slurm" else []
        return Action(
            verb="cancel", job=row.job, user=row.user, reason=reason, gpus=row.gpus, command=command
        )
    if rule.action == "cancel":
        reason += f"; it will be cancelled after {rule.warnings - len(given)} more warnings"
    return Action(verb="warn", job=row.job, user=row.user, reason=reason, gpus=row.gpus, command=[])


def _propose_resize(job: FleetJob, known: Sequence[FleetJobRow]) -> Action | None:
    """Fewer GPUs for a pending job whose last runs of the same name and user left some unused."""
    earlier = [
        row
        for row in known
        if row.user == job.user and row.name == job.name and row.name is not None
        and row.gpus == job.gpus and row.unused_gpus is not None and row.coverage >= 0.9
    ]  # fmt: skip
    unused = min((row.unused_gpus or 0 for row in earlier), default=0)
    if job.ledger != "slurm" or not 0 < unused < job.gpus or (job.nodes or 1) > 1:
        return None
    gpus = job.gpus - unused
    return Action(
        verb="resize",
        job=job.job,
        user=job.user,
        reason=f"{len(earlier)} earlier runs of {job.name} never used {unused} of {job.gpus} GPUs",
        gpus=unused,
        command=["scontrol", "update", f"JobId={job.job}", f"TresPerNode=gres:gpu:{gpus}"],
    )


class Actor:
    """Does what was planned, and writes each action to the audit log before and after it."""

    def __init__(self, policy: ActionPolicy, log: Path, report: Callable[[str], None]) -> None:
        self._policy, self._log, self._report = policy, log, report

    def act(self, plan: ActionPlan) -> int:
        """Do all actions of a plan; return how many failed.

        Raises:
            OutputError: the audit log cannot be written. Nothing is done that is not in it.
        """
        failed = 0
        for action in plan.actions:
            self._note(action, "planned")
            why = self._reason_to_skip(action)
            if why is not None:
                self._note(action, "skipped", why)
                self._report(f"skipped {action.verb} of {action.job}: {why}")
                continue
            why = self._execute(action)
            if why is not None:
                failed += 1
                self._report(f"{action.verb} of {action.job}: {why}")
        return failed

    def _reason_to_skip(self, action: Action) -> str | None:
        if action.verb == "warn":
            return None if self._policy.notify else "`notify` names no program"
        if not action.command:
            return "only jobs of Slurm can be acted on; tell the owner"
        wanted = "PENDING" if action.verb == "resize" else "RUNNING"
        try:
            answer = _run(["squeue", "-h", "-j", action.job, "-o", "%T|%u"])
        except (OSError, subprocess.SubprocessError) as error:
            return f"its state is not known: {_explain_failure(error)}"
        state, _, user = answer.strip().partition("|")
        if state != wanted or (action.user is not None and user != action.user):
            return f"it is {state.lower() or 'gone'} now"
        return None

    def _execute(self, action: Action) -> str | None:
        """Do it, see what became of it, write that to the log, and only then tell the owner.
        Returns what went wrong."""
        why = None
        try:
            if action.command:
                _run(action.command)
            if action.verb == "warn":
                self._tell_owner(action)
            elif action.verb == "cancel" and not self._has_ended(action.job):
                why = f"it still runs {ENDING_S:.0f} s after scancel"
        except (OSError, subprocess.SubprocessError) as error:
            why = _explain_failure(error)
        event = "done" if why is None else "failed"
        if event == "done" and action.verb != "warn":
            try:
                self._tell_owner(action)
            except (OSError, subprocess.SubprocessError) as error:
                why = f"done, but its owner was not told: {_explain_failure(error)}"
        self._note(action, event, why)
        return why

    def _tell_owner(self, action: Action) -> None:
        if self._policy.notify:
            _run(self._policy.notify, json.dumps(msgspec.to_builtins(action)))

    def _has_ended(self, job: str) -> bool:
        """Whether a cancelled job leaves the queue, or its nodes at least clean up behind it."""
        limit = time.monotonic() + ENDING_S
        while time.monotonic() < limit:
            try:
                state = _run(["squeue", "-h", "-j", job, "-o", "%T"]).strip()
            except subprocess.CalledProcessError:
                return True  # squeue knows it no more
            if state in ("", "COMPLETING", "CANCELLED"):
                return True
            time.sleep(0.5)
        return False

    def _note(self, action: Action, event: str, why: str | None = None) -> None:
        entry = LogEntry(
            time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            event=event,  # type: ignore[arg-type]
            verb=action.verb,
            job=action.job,
            user=action.user,
            reason=action.reason,
            command=action.command,
            uid=os.getuid(),
            why=why,
        )
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            place = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(place, msgspec.json.encode(entry) + b"\n")
                os.fsync(place)
            finally:
                os.close(place)
        except OSError as error:
            raise OutputError(
                f"Cannot write the audit log {self._log}.", why=f"{error.strerror or error}."
            ) from error


def read_log(path: Path) -> list[LogEntry]:
    """Read an audit log; empty if there is none.

    Raises:
        InputError: it cannot be read, so that warnings that were given are not known.
    """
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=LogEntry) for line in lines if line.strip()]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(
            f"Cannot read the audit log {path}.", why=f"{error}.", hint="--log ANOTHER_FILE"
        ) from error


def _run(argv: Sequence[str], text: str = "") -> str:
    done = subprocess.run(
        list(argv), input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    return done.stdout


def _explain_failure(error: Exception) -> str:
    message = getattr(error, "stderr", None) or str(error)
    return " ".join(str(message).split())[:300]
