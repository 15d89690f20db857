"""Diagnoses recordings by their paths; also reads stored diagnoses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.rank_survey import SurveyedRank, choose_closely
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.errors import InputError, NotATraceError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.plugin import Importer
from whyidle.model.timeline import Timeline
from whyidle.readers._files.parallel_load import load_all, map_apart, note_failures, usable_cores
from whyidle.readers._files.recording_search import Origin, find_recordings
from whyidle.store.document import read_diagnosis
from whyidle.store.entry import DIAGNOSIS


class Explanation(NamedTuple):
    """A diagnosis and its recordings; none if the diagnosis was read from a file."""

    diagnosis: Diagnosis
    timelines: tuple[Timeline, ...]


MANY = 16
"""more ranks are surveyed first; all causes are checked on every rank of fewer"""
Progress = Callable[[int, int], None]
_DOCUMENT = re.compile(rb'\s*\{\s*"schema"\s*:\s*"whyidle/diagnosis/')
_TRACE_NAME = re.compile(r"^(?!.*(nccl|flight)).*\.(json|json\.gz|zip)$", re.IGNORECASE)
"""names of files that need not be asked whether they record a state"""


def explain_paths(
    paths: Sequence[Path],
    *,
    progress: Progress | None = None,
    stage: Callable[[str], None] | None = None,
) -> Explanation:
    """Diagnose recordings.

    Args:
        paths: traces, folders or zips of one job's ranks; or a diagnosis; or a run's folder.
        progress: called with (bytes read, total bytes).
        stage: called with the title of each check.

    Raises:
        InputError: a path cannot be used.
        StoreError: a diagnosis cannot be read.
    """
    if len(paths) == 1 and (document := document_at(paths[0])) is not None:
        return Explanation(read_diagnosis(document), ())
    if len(paths) == 1 and (diagnosis := _diagnose_watched(paths[0])) is not None:
        return Explanation(diagnosis, ())
    files = all(path.is_file() for path in paths)
    named = all(_TRACE_NAME.search(path.name) for path in paths)
    if files and not named and (states := _diagnose_states(paths)) is not None:
        return Explanation(states, ())
    importers = list(catalog.load_importers().values())
    try:
        origins = find_recordings(*paths, importers=importers)
    except NotATraceError:
        if (states := _diagnose_states(paths)) is not None:
            return Explanation(states, ())
        raise
    if len(origins) > MANY:
        return _diagnose_many(origins, importers, progress, stage)
    timelines = load_all(origins, progress, importers)
    return Explanation(diagnose_job(timelines, progress=stage), tuple(timelines))


def _diagnose_many(
    origins: Sequence[Origin],
    importers: Sequence[Importer],
    progress: Progress | None,
    stage: Callable[[str], None] | None,
) -> Explanation:
    """Survey all ranks, and diagnose some of them closely."""
    results = []
    for result in map_apart(survey_rank, origins, usable_cores()):
        results.append(result)
        if progress is not None:
            progress(len(results), len(origins))
    read = [(o, r) for o, r in zip(origins, results, strict=True) if isinstance(r, SurveyedRank)]
    if len({facts.rank for _, facts in read} - {None}) < len(read):  # not one job, or no numbers
        timelines = load_all(origins, importers=importers)
        return Explanation(diagnose_job(timelines, progress=stage), tuple(timelines))
    read.sort(key=lambda pair: pair[1].rank or 0)
    everyone = tuple(facts for _, facts in read)
    closely = [read[index][0] for index in choose_closely(everyone)]
    timelines = load_all(closely, importers=importers)
    failed = [result for result in results if isinstance(result, InputError)]
    timelines[0] = note_failures(timelines[0], failed)
    diagnosis = diagnose_job(timelines, progress=stage, everyone=everyone)
    return Explanation(diagnosis, tuple(timelines))


def survey_rank(origin: Origin) -> SurveyedRank | InputError:
    """Read one rank and keep of it what a survey needs; or why it cannot be read."""
    importers = list(catalog.load_importers().values())
    try:
        return SurveyedRank(Facts(load_all([origin], importers=importers)[0]))
    except InputError as error:
        return error


def _diagnose_watched(path: Path) -> Diagnosis | None:
    """The diagnosis of a watched command whose recording is in a folder; None if there is none."""
    if not path.is_dir():
        return None
    from whyidle.record import recording_diagnosis  # noqa: PLC0415  # traces do without

    recording = recording_diagnosis.recording_at(path)
    return None if recording is None else recording_diagnosis.diagnose_recording(recording)


def _diagnose_states(paths: Sequence[Path]) -> Diagnosis | None:
    """The diagnosis of memory snapshots or of dumps of a flight recorder; None for others."""
    from whyidle.recordings import state_diagnosis  # noqa: PLC0415  # traces do without

    return state_diagnosis.diagnose_states(paths)


def document_at(path: Path) -> Path | None:
    """Path of the diagnosis in a file or a stored run's folder; None if there is none."""
    try:
        if path.is_dir():
            inside = path / DIAGNOSIS
            return inside if inside.is_file() else None
        if not path.is_file():
            return None
        with path.open("rb") as opened:
            head = opened.read(256)
    except OSError:
        return None  # the importer will report why it cannot be opened
    return path if _DOCUMENT.match(head) else None
