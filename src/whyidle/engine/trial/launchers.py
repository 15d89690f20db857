"""Commands that have a service start what they name, here or on another machine.

That is no child of theirs, so nothing of ours is around it. They are known by their names: as the
command, behind ``sudo`` and the like, and in the text of a shell's script.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

LAUNCHERS = (
    ("srun",),
    ("sbatch",),
    ("qsub",),
    ("flux", "run"),
    ("flux", "submit"),
    ("flux", "batch"),
    ("ssh",),
    ("kubectl",),
    ("docker",),
    ("docker-compose",),
    ("podman",),
    ("nerdctl",),
    ("ray", "job", "submit"),
)
PREFIXES = {
    "command": ("", 0),
    "doas": ("Cu", 0),
    "env": ("uC", 0),
    "exec": ("a", 0),
    "ionice": ("cnp", 0),
    "nice": ("n", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "sudo": ("CDghpRrTtUu", 0),
    "taskset": ("", 1),
    "time": ("fo", 0),
    "timeout": ("ks", 1),
}
"""what starts the rest of its words: letters of the options that a word follows, and how many words
come before the command"""
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
NO_COMMANDS = re.compile(
    r"<<-?\s*(['\"]?)(\w+)\1.*?\n(?:.*\n)*?\s*\2\s*$"  # a text, up to the line that ends it
    r"|^\s*[^\s()]+(?:\s*\|\s*[^\s()]+)*\)"  # what a case is about
    r"|^\s*[\w-]+\s*\(\)",  # the name of a function
    re.MULTILINE,
)
KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})
"""of a shell's, behind which a command begins"""
ASSIGNED = re.compile(r"\w+=.*", re.DOTALL)
MOST_CHARACTERS = 1 << 20


def launcher(words: Sequence[str], known: set[str] | None = None) -> str | None:
    """The first launcher that a command comes to, as it is written there; ``known`` are scripts
    that have been read."""
    words, known = _bare(words), set() if known is None else known
    if not words:
        return None
    named = (Path(words[0]).name, *words[1:])
    if any(named[: len(each)] == each for each in LAUNCHERS):
        return words[0]
    found = (launcher(each, known) for each in _commands(_text(named[0], words, known)))
    return next(filter(None, found), None)


def _bare(words: Sequence[str]) -> Sequence[str]:
    """Without what stands before the command."""
    while words:
        name = Path(words[0]).name
        if name in KEYWORDS or ASSIGNED.fullmatch(words[0]):
            words = words[1:]
        elif name == "command" and words[1:2] and words[1] in ("-v", "-V"):
            return ()  # asks for it only
        elif name in PREFIXES:
            valued, places = PREFIXES[name]
            words = _behind_options(words[1:], valued)[places:]
        else:
            break
    return words


def _behind_options(words: Sequence[str], valued: str) -> Sequence[str]:
    while words and words[0].startswith(("-", "+")):
        word, words = words[0], words[1:]
        if word == "--":
            break
        if not word.startswith("--") and word[-1] in valued:
            words = words[1:]
    return words


def _text(name: str, words: Sequence[str], known: set[str]) -> str:
    """Of the script that a command runs, if it runs one that is no installed program."""
    if name not in SHELLS:
        return _read(words[0], known, only_shells=True) if name != words[0] else ""
    rest = _behind_options(words[1:], "oO")
    options = words[1 : len(words) - len(rest)]
    if any(re.fullmatch(r"-\w*c\w*", word) for word in options):
        return rest[0] if rest else ""
    return _read(rest[0], known, only_shells=False) if rest else ""


def _read(path: str, known: set[str], *, only_shells: bool) -> str:
    with suppress(OSError, ValueError):
        if path not in known and Path(path).is_file():
            known.add(path)
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                first = file.readline(200)
                shell = first.startswith("#!") and SHELLS & set(re.split(r"[/\s]", first))
                return "" if only_shells and not shell else first + file.read(MOST_CHARACTERS)
    return ""


def _commands(text: str) -> Iterator[list[str]]:
    """Those of a script, line by line; what is in quotes is none."""
    for line in NO_COMMANDS.sub("", text.replace("\\\n", " ")).splitlines():
        split = shlex.shlex(line, posix=True, punctuation_chars=True)
        split.whitespace_split = True
        words: list[str] = []
        with suppress(ValueError):  # a quote that goes on in the next line
            for word in split:
                if set(word) <= set(";&|()"):
                    yield words
                    words = []
                else:
                    words.append(word)
        yield words
