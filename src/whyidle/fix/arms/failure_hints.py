"""Explains why a command fails in a trial, from its error message, and what may help.

A trial differs from the job in disk space, write permission, standard input and network access. A
reason is only given if the error message or a blocked action supports it.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Literal, NamedTuple

from whyidle.fix.arms import stdin_replay
from whyidle.fix.isolation import IsolationReport

Cause = Literal["room", "rights", "input", "network"]

NUMBERS: dict[Cause, tuple[str, ...]] = {
    "room": ("ENOSPC", "EDQUOT", "EFBIG"),
    "rights": ("EACCES", "EPERM", "EROFS"),
    "network": (
        *("ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EHOSTUNREACH", "EHOSTDOWN"),
        *("ENETUNREACH", "ENETDOWN", "ETIMEDOUT"),
    ),
}
"""error numbers of the system, the most reliable category first"""
TYPES: dict[Cause, str] = {
    "rights": r"\bPermissionError\b",
    "input": r"\bEOFError\b(?!: Ran out of input)",
    "network": r"\b\w*(?:Connect(?:ion)?|Offline|Proxy|SSL|URL|HTTP)\w*(?:Error|Timeout|Enabled)\b"
    r"|\bgaierror\b",
}
"""exception types of Python; the excluded message is pickle's for an empty file"""
ABOUT_NETWORK = re.compile(
    r"\bconnection (?:refused|reset|aborted|error|timed out)\b|\boffline mode\b|unreachable|"
    r"\b(?:could not|couldn't|cannot|can't|failed to) (?:connect|resolve|download)\b|"
    r"\bnetwork is\b|"
    r"name resolution|name or service not known|could not resolve",
    re.IGNORECASE,
)
SENDING = ("connection to ", "look-up of ")  # beginnings of blocked actions that --network allows
ANYWAY = "Does it run without whyidle?"


class FailureHint(NamedTuple):
    """The reason and the next step."""

    why: str
    hint: str


def hint_category(last: str) -> Cause | None:
    """Classify an error message; None if it does not indicate a category."""
    for category, names in NUMBERS.items():
        if re.search(_error_pattern(names), last):
            return category
    for category, pattern in TYPES.items():
        if re.search(pattern, last):
            return category
    return "network" if ABOUT_NETWORK.search(last) else None


def _error_pattern(names: tuple[str, ...]) -> str:
    found = {name: getattr(errno, name) for name in names if hasattr(errno, name)}
    texts = "|".join(re.escape(os.strerror(number)) for number in found.values())
    numbers = "|".join(map(str, found.values()))
    return rf"\b(?:{'|'.join(found)})\b|(?:[Ee]rrno|os error) (?:{numbers})\b|{texts}"


def explain_failure(last: str, status: int | None, behind: IsolationReport | None) -> FailureHint:
    """Explain a failure. ``behind`` is the isolation of the trial."""
    ended = f"It exited with status {status} in a trial"
    closed = behind is None or not behind.network
    blocked_actions = [one.what for one in behind.leaks] if behind else []
    sent = [what for what in blocked_actions if what.startswith(SENDING)]
    category = hint_category(last)
    if category == "room":
        return FailureHint(
            f"{ended} because disk space ran out: trials write to the folder for temporary files.",
            "Free space, or use a larger disk: TMPDIR=FOLDER whyidle fix COMMAND",
        )
    if category == "rights":
        return _hint_permissions(ended, behind)
    if category == "input":
        return _hint_input(ended)
    if closed and (category == "network" or sent):
        blocked = f" Blocked: {sent[0]}." if sent else ""
        return FailureHint(
            f"{ended}: without --network, trials have no network access.{blocked}",
            f"{ANYWAY} If it needs the network: --network --yes",
        )
    network = "there is no network, and " if closed else ""
    refused = ", or refused if code other than Python writes them"
    landlock = behind is not None and behind.level == "landlock"
    return FailureHint(
        f"{ended}, where {network}file changes are discarded{refused if landlock else ''}.", ANYWAY
    )


def _hint_permissions(ended: str, behind: IsolationReport | None) -> FailureHint:
    if behind and behind.level == "landlock":
        return FailureHint(
            f"{ended}. This machine does not allow namespaces: file changes by programs and C++ "
            "code are refused in a trial, not discarded.",
            "Run such steps beforehand, and give whyidle fix only the training command.",
        )
    if behind and behind.level == "namespaces":
        return FailureHint(
            f"{ended}. Some writes are refused in a trial, not discarded: new files and folders "
            "directly in a folder that contains a mount, and files of other owners.",
            f"{ANYWAY} An existing output folder can be written: mkdir -p FOLDER",
        )
    return FailureHint(f"{ended} because a permission is missing.", ANYWAY)


def _hint_input(ended: str) -> FailureHint:
    if stdin_replay.stdin_kind() == "file":
        return FailureHint(
            f"{ended}: its input file ended.",
            f"{ANYWAY} If it reads its standard input, the file needs more lines.",
        )
    return FailureHint(
        f"{ended}, where its standard input is empty.",
        f"{ANYWAY} If it needs input, pass a file: whyidle fix COMMAND < FILE",
    )
