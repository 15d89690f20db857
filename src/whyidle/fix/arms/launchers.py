"""Recognises launchers that let a service start the job, here or on another machine.

Such a job is not a child process and cannot be isolated. Launchers are recognised by name, in the
words before the training program and in shell text. Names in quoted text or conditions count too;
``--yes`` overrides it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LAUNCHERS = (
    *("docker", "docker-compose", "flux run", "flux submit", "flux batch", "kubectl", "nerdctl"),
    *("podman", "qsub", "ray job submit", "sbatch", "srun", "ssh"),
)
_NAMES = "|".join(name.replace(" ", r"\s+") for name in sorted(LAUNCHERS, reverse=True))
_WHOLE = re.compile(rf"(?:{_NAMES})(?!\S)")
_IN_TEXT = re.compile(
    r"(?:^|[;&|()]|\b(?:do|else|env|exec|nohup|sudo|then|time)\s)[ \t]*(?:\w+=\S*\s+)*"
    rf"((?:[\w./-]*/)?(?:{_NAMES}))(?!\S)",
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?<!\S)#.*")
_PROGRAM = re.compile(r"python[\d.]*|\S*\.py")
_SHELL = re.compile(r"#!.*\b(?:ba|da|a|z|k)?sh\b")
MOST_CHARACTERS = 1 << 20


def find_launcher(words: Sequence[str]) -> str | None:
    """The first launcher in a command, as it is written there."""
    for at, word in enumerate(words):
        name = Path(word).name
        if _PROGRAM.fullmatch(name):
            return None
        line = bool(re.search(r"\s", word))  # of a shell, as behind ``bash -c``
        if not line and _WHOLE.match(" ".join([name, *words[at + 1 :]])):
            return word
        text = word if line else _script(word)
        if text:
            found = _IN_TEXT.search(_COMMENT.sub("", text.replace("\\\n", " ")))
            return found[1].split()[0] if found else None
    return None


def _script(path: str) -> str:
    with suppress(OSError, ValueError):
        if Path(path).is_file():
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                text = file.read(MOST_CHARACTERS)
            return text if _SHELL.match(text) or path.endswith(".sh") else ""
    return ""
