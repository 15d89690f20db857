"""Explains why a command fails in a trial, from its error message, and what may help.

A trial differs from the job in disk space, write permission, standard input and network access. A
reason is only given if the error message or a blocked action supports it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from whyidle.fix.isolation import IsolationReport

FULL = re.compile(
    r"\bENOSPC\b|no space left on device|disk quota exceeded|(?:errno|os error) (?:28|122)\b",
    re.IGNORECASE,
)
UNREACHED = re.compile(
    r"\b\w*(?:connect(?:ion)?|offline|proxy|ssl|url|http)\w*(?:error|timeout|enabled)\b|\bgaierror\b|"
    r"\bECONN\w+|\bE(?:HOST|NET)(?:DOWN|UNREACH)\b|\bETIMEDOUT\b|"
    r"\bconnection (?:refused|reset|aborted|error|timed out)\b|\boffline mode\b|unreachable|"
    r"\b(?:could not|couldn't|cannot|can't|failed to) (?:connect|resolve|download)\b|"
    r"\bnetwork is\b|name resolution|name or service not known",
    re.IGNORECASE,
)
SENDING = ("connection to ", "look-up of ")  # beginnings of blocked actions that --network allows
ANYWAY = "Does it run without whyidle?"


class FailureHint(NamedTuple):
    """The reason and the next step."""

    why: str
    hint: str


def explain_failure(last: str, status: int | None, behind: IsolationReport | None) -> FailureHint:
    """Explain a failure. ``behind`` is the isolation of the trial."""
    ended = f"It exited with status {status} in a trial"
    closed = behind is None or not behind.network
    blocked_actions = [one.what for one in behind.leaks] if behind else []
    sent = [what for what in blocked_actions if what.startswith(SENDING)]
    if FULL.search(last):
        return FailureHint(
            f"{ended} because disk space ran out: trials write to the folder for temporary files.",
            "Free space, or use a larger disk: TMPDIR=FOLDER whyidle fix COMMAND",
        )
    if closed and (sent or UNREACHED.search(last)):
        blocked = f" Blocked: {sent[0]}." if sent else ""
        return FailureHint(
            f"{ended}: without --network, trials have no network access.{blocked}",
            f"{ANYWAY} If it needs the network: --network --yes",
        )
    network = "there is no network, " if closed else ""
    refused = ", or refused if code other than Python writes them"
    landlock = behind is not None and behind.level == "landlock"
    return FailureHint(
        f"{ended}, where {network}the standard input is empty, and file changes are "
        f"discarded{refused if landlock else ''}.",
        ANYWAY,
    )
