"""Short names for several runs: what tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath

from whyidle.model.diagnosis import Diagnosis

_PYTHON = ("python", "torchrun", "accelerate")


def name_runs(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Name each run by its script or file. Framework, the arguments that not all runs share, and a
    number are added while two runs have the same name."""
    common = set.intersection(*(set(_arguments(diagnosis)) for diagnosis in diagnoses))
    names = [_script_name(diagnosis) for diagnosis in diagnoses]
    more: list[Callable[[Diagnosis], str]] = [
        lambda diagnosis: diagnosis.run.framework or "",
        lambda diagnosis: " ".join(a for a in _arguments(diagnosis) if a not in common),
    ]
    for describe in more:
        if len(set(names)) < len(names):
            parts = [describe(diagnosis) for diagnosis in diagnoses]
            if len(set(parts)) > 1:
                names = [f"{n} {p}".strip() for n, p in zip(names, parts, strict=True)]
    return _number_duplicates(names)


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
