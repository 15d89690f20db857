"""Removes secrets from command lines, before anything is stored, sent or shown.

Standard library only: the probe stores the arguments of its process, and readers share the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"
_NAME: Final = re.compile(
    r"(?i)((^|[-_.])(token|key|pass|pwd|pw|auth)$|secret|passw|passphrase|(api|access)[-_]?key"
    r"|credential)"
)
"""names of options, variables and settings whose values are secret; ``tokenizer``, ``max-tokens``
and ``monkey`` are none"""
_LAUNCHERS: Final = ("srun", "sbatch", "salloc", "mkdir")
"""whose ``-p`` is a partition, or no secret: it stands before the program that they start"""
_NUMBER: Final = re.compile(r"[\d.]{1,5}|\d+:\d+")
"""after ``-p``, a port or a probability"""
_USERINFO: Final = re.compile(r"(\w+://[^/\s:@]*:)[^@\s/]+@")
_QUERY: Final = re.compile(
    r"(?i)([?&][\w.-]*(?:token|key|secret|signature|sig|passw\w*|credential)=)[^&\s]+"
)
_HEADER: Final = re.compile(r"(?i)\b(bearer|basic|token)\s+[\w.~+/=-]{8,}")
_SHAPES: Final = re.compile(
    r"\b(hf_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abpr]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
"""what is a secret by its own shape: tokens of Hugging Face, GitHub, GitLab, OpenAI, AWS and Slack,
and JSON web tokens"""


def redact_command(command: Iterable[str]) -> list[str]:
    """The words of a command line without the values of options that sound like secrets, without
    passwords in addresses, and without what is a secret by its shape."""
    words: list[str] = []
    hide = brief = is_launcher = False
    for word in command:
        is_launcher = word.rpartition("/")[2] in _LAUNCHERS or (is_launcher and word[-3:] != ".py")
        name, equals, _ = word.partition("=")
        secret = bool(_NAME.search(name)) and bool(equals or name.startswith("-"))
        shown = f"{name}={HIDDEN}" if secret and equals else redact_text(word)
        hide = hide or (brief and not _NUMBER.fullmatch(word))
        words.append(HIDDEN if hide and not word.startswith("-") else shown)
        hide, brief = secret and not equals, word == "-p" and not is_launcher
    return words


def redact_text(text: str) -> str:
    """A text without passwords in addresses, and without what is a secret by its shape."""
    text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
    text = _QUERY.sub(rf"\1{HIDDEN}", text)
    return _SHAPES.sub(HIDDEN, _HEADER.sub(rf"\1 {HIDDEN}", text))
