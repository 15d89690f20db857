"""Which files a run has loaded: where a patched one must be found, and whether it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from whyidle.engine.patching.source_patch import SourcePatch
from whyidle.engine.trial.arms.arm import ArmResult


def found_as(patch: SourcePatch, runs: Iterable[ArmResult]) -> SourcePatch:
    """The same, of which it is known from what runs of the unpatched files told where modules of
    it are found: an installation in development need not show in any path."""
    told = [files for ran in runs for files in _loaded_files(ran)]
    starts = [
        Path(start)
        for files in told
        for path, starts in files.items()
        if Path(path) in patch.files
        for start in starts
    ]
    folders = tuple(dict.fromkeys((*starts, *patch.own.folders)))
    return replace(patch, own=replace(patch.own, folders=folders))


def explain_unloaded(patch: SourcePatch, ran: ArmResult) -> str:
    """Why a run with a patch says nothing of it, without a full stop: it loaded a file as it was,
    or was not seen to load any patched one. Empty where it did, or where that is not known."""
    known = list(_loaded_files(ran))
    if not known:
        return ""
    told = [Path(path) for files in known for path in files]
    as_it_was = sorted(set(told) & set(patch.files))
    if as_it_was:
        return f"the command loads {as_it_was[0].relative_to(patch.diff_root)} from elsewhere"
    names = [path.relative_to(patch.diff_root) for path in sorted(patch.files)]
    if not any(path.parts[-len(name.parts) :] == name.parts for path in told for name in names):
        return f"the command was not seen to load {names[0]}"
    return ""


def _loaded_files(ran: ArmResult) -> Iterator[Mapping[str, Sequence[str]]]:
    """What each of its processes told."""
    processes = [*ran.ranks.values(), *([ran.told] if ran.told else [])]
    return (one.files for one in processes if one.files is not None)
