"""Time at lines that compute, in every epoch, the same results for the same samples again."""

from __future__ import annotations

from msgspec import Struct

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.repeated_reads import count_repeats
from whyidle.analysis.input.worker_batches import LEAST_SAMPLES
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role


class RepeatedResults(Struct, frozen=True):
    """Such lines, those with most time first."""

    places: tuple[Place, ...]
    spans: Intervals
    again: int
    """samples that were seen again, all of them the same; 0 for rows of tensors"""
    of_samples: bool
    """whether a result depends on the sample, not only on what never changes"""


def find_repeated_results(facts: Facts) -> RepeatedResults | None:
    """Return the lines that compute the same again by the source. Those for the same samples count
    if samples are the same in every epoch: by checksums, or because they are rows of tensors."""
    lines = [line for line in facts.lines if line.fixed is not None and not line.only_reports]
    loading, plays = facts.timeline.loading, facts.timeline.vocabulary.plays
    same, again = count_repeats(loading.rows)
    tables = [
        plays(Role.TABLE_CODE, f"{loader.making};{loader.collating}") for loader in loading.loaders
    ]
    if same != again or (again < LEAST_SAMPLES and not (tables and all(tables))):
        lines = [line for line in lines if not line.for_samples]
    if not lines:
        return None
    spans = EMPTY
    for line in lines:
        spans = spans | line.sampled_time
    places = dict.fromkeys(line.fixed for line in lines if line.fixed is not None)
    of_samples = any(line.for_samples for line in lines)
    return RepeatedResults(tuple(places), spans, again if of_samples else 0, of_samples)
