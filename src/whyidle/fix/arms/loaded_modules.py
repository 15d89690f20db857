"""Checks which of the patched files a run loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.patching.source_patch import SourcePatch


def found_as(patch: SourcePatch, runs: Iterable[ArmResult]) -> SourcePatch:
    """Add the folders from which unpatched runs imported the files."""
    loaded = [files for ran in runs for files in _loaded_files(ran)]
    starts = [
        Path(start)
        for files in loaded
        for path, starts in files.items()
        if Path(path) in patch.files
        for start in starts
    ]
    folders = tuple(dict.fromkeys((*starts, *patch.own.folders)))
    return replace(patch, own=replace(patch.own, folders=folders))


def explain_unloaded(patch: SourcePatch, ran: ArmResult) -> str:
    """Explain why a run did not test the patch: it loaded an original file, or no patched one.
    Empty if it loaded a patched file, or if that is unknown."""
    processes = list(_loaded_files(ran))
    if not processes:
        return ""
    loaded = [Path(path) for files in processes for path in files]
    as_it_was = sorted(set(loaded) & set(patch.files))
    if as_it_was:
        return f"the command loads {as_it_was[0].relative_to(patch.diff_root)} from elsewhere"
    names = [path.relative_to(patch.diff_root) for path in sorted(patch.files)]
    if not any(path.parts[-len(name.parts) :] == name.parts for path in loaded for name in names):
        return f"the command did not load {names[0]}, as far as was recorded"
    return ""


def _loaded_files(ran: ArmResult) -> Iterator[Mapping[str, Sequence[str]]]:
    processes = [*ran.ranks.values(), *([ran.report] if ran.report else [])]
    return (one.files for one in processes if one.files is not None)
