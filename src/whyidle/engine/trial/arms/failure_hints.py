"""Why a command fails in a trial, as far as its last words tell, and what may help.

A trial differs from the job itself in what may be written, how much of it, what there is to read
and whom it reaches. Only what its words, or what was held back, speak for is called the reason.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Literal, NamedTuple

from whyidle.engine.isolation import IsolationReport
from whyidle.engine.trial.arms import stdin_replay

Cause = Literal["room", "rights", "input", "network"]

NUMBERS: dict[Cause, tuple[str, ...]] = {
    "room": ("ENOSPC", "EDQUOT", "EFBIG"),
    "rights": ("EACCES", "EPERM", "EROFS"),
    "network": (
        *("ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EHOSTUNREACH", "EHOSTDOWN"),
        *("ENETUNREACH", "ENETDOWN", "ETIMEDOUT"),
    ),
}
"""what the system says in numbers, in this order of belief"""
TYPES: dict[Cause, str] = {
    "rights": r"\bPermissionError\b",
    "input": r"\bEOFError\b(?!: Ran out of input)",
    "network": r"\b\w*(?:Connect(?:ion)?|Offline|Proxy|SSL|URL|HTTP)\w*(?:Error|Timeout|Enabled)\b"
    r"|\bgaierror\b",
}
"""and Python in types of errors; the exception is pickle's, of a file that is empty"""
ABOUT_NETWORK = re.compile(
    r"\bconnection (?:refused|reset|aborted|error|timed out)\b|\boffline mode\b|unreachable|"
    r"\b(?:could not|couldn't|cannot|can't|failed to) (?:connect|resolve|download)\b|"
    r"\bnetwork is\b|"
    r"name resolution|name or service not known|could not resolve",
    re.IGNORECASE,
)
SENDING = ("connection to ", "look-up of ")
"""how what was held back begins that --network lets through"""
ANYWAY = "Does it run without whyidle?"


class FailureHint(NamedTuple):
    """Two parts of what the user is told."""

    why: str
    hint: str


def hint_category(last: str) -> Cause | None:
    """What a command's last words speak for."""
    for one, names in NUMBERS.items():
        if re.search(_error_pattern(names), last):
            return one
    for one, pattern in TYPES.items():
        if re.search(pattern, last):
            return one
    return "network" if ABOUT_NETWORK.search(last) else None


def _error_pattern(names: tuple[str, ...]) -> str:
    """An error by its name, its number as languages write it, or what the system calls it."""
    found = {name: getattr(errno, name) for name in names if hasattr(errno, name)}
    texts = "|".join(re.escape(os.strerror(number)) for number in found.values())
    numbers = "|".join(map(str, found.values()))
    return rf"\b(?:{'|'.join(found)})\b|(?:[Ee]rrno|os error) (?:{numbers})\b|{texts}"


def explain_failure(last: str, status: int | None, behind: IsolationReport | None) -> FailureHint:
    """The reason and the way out. ``behind`` is what stood around the trial."""
    ended = f"It ended with {status} in a trial"
    closed = behind is None or not behind.network
    held = [one.what for one in behind.leaks] if behind else []
    sent = [what for what in held if what.startswith(SENDING)]
    found = hint_category(last)
    if found == "room":
        return FailureHint(
            f"{ended}, for want of room: what trials write and record is kept with temporary "
            "files.",
            "Make room, or have it kept where there is more: TMPDIR=FOLDER whyidle fix COMMAND",
        )
    if found == "rights":
        return _hint_permissions(ended, behind)
    if found == "input":
        return _hint_input(ended)
    if closed and (found == "network" or sent):
        told = f" It was kept from this: {sent[0]}." if sent else ""
        return FailureHint(
            f"{ended}: without --network it has no network there.{told}",
            f"{ANYWAY} A job that needs the network: --network --yes",
        )
    apart = "there is no network, and " if closed else ""
    return FailureHint(f"{ended}, where {apart}what it writes {_describe_exit(behind)}.", ANYWAY)


def _describe_exit(behind: IsolationReport | None) -> str:
    if behind and behind.level == "landlock":
        return "is thrown away, or refused where code that is not Python writes it"
    return "is thrown away"


def _hint_permissions(ended: str, behind: IsolationReport | None) -> FailureHint:
    if behind and behind.level == "landlock":
        return FailureHint(
            f"{ended}. Here are no namespaces: what programs and C++ code write or remove in a "
            "trial is refused, not thrown away.",
            "Do such steps first, by themselves, and give whyidle fix the command that trains.",
        )
    if behind and behind.level == "namespaces":
        return FailureHint(
            f"{ended}. There some of what is written is refused, not thrown away: new files and "
            "folders directly in a folder with a mount below it, and files of other owners.",
            f"{ANYWAY} An output folder that is there before can be written: mkdir -p FOLDER",
        )
    return FailureHint(f"{ended}, for want of permission.", ANYWAY)


def _hint_input(ended: str) -> FailureHint:
    if stdin_replay.stdin_kind() == "file":
        return FailureHint(
            f"{ended}: what it is given to read came to its end.",
            f"{ANYWAY} If it reads its standard input, the file needs more lines.",
        )
    return FailureHint(
        f"{ended}, where there is nothing to read from its standard input.",
        f"{ANYWAY} If it asks for something, give it as a file: whyidle fix COMMAND < FILE",
    )
