"""Short names for several runs: what tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath

from whyidle.model.diagnosis import Diagnosis

_PYTHON = ("python", "torchrun", "accelerate")


def name_runs(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Name each run by its script or file. Where several have the same name, the framework, the
    arguments that not all runs share, and a number are added."""
    common = set.intersection(*(set(_arguments(diagnosis)) for diagnosis in diagnoses))
    names = [_script_name(diagnosis) for diagnosis in diagnoses]
    more: list[Callable[[Diagnosis], str]] = [
        lambda diagnosis: diagnosis.run.framework or "",
        lambda diagnosis: " ".join(a for a in _arguments(diagnosis) if a not in common),
    ]
    for describe in more:
        names = _extend_duplicates(names, [describe(diagnosis) for diagnosis in diagnoses])
    return _number_duplicates(names)


def _extend_duplicates(names: list[str], parts: list[str]) -> list[str]:
    """Names with their part, where runs of one name have different parts."""
    extended = []
    for name, part in zip(names, parts, strict=True):
        theirs = {p for n, p in zip(names, parts, strict=True) if n == name}
        extended.append(f"{name} {part}".strip() if len(theirs) > 1 else name)
    return extended


def _number_duplicates(names: list[str]) -> list[str]:
    counts, seen = Counter(names), Counter[str]()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} #{seen[name]}" if counts[name] > 1 else name)
    return numbered


def _script_name(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    if not run.command:
        return PurePath(run.sources[0]).name if run.sources else run.id or "run"
    words = run.command[_script_index(run.command) :]
    return PurePath(words[1] if words[0] == "-m" and len(words) > 1 else words[0]).name


def _arguments(diagnosis: Diagnosis) -> list[str]:
    """The words after the script."""
    command = diagnosis.run.command or []
    return command[_script_index(command) + 1 :] if command else []


def _script_index(command: list[str]) -> int:
    """The position of the script or of ``-m``; of the program if it is no Python."""
    if not PurePath(command[0]).name.startswith(_PYTHON):
        return 0
    for index, word in enumerate(command[1:], 1):
        if word == "-m" or word.endswith(".py"):
            return index
    return 0
