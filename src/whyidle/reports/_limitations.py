"""What was not recorded: notes, causes that could not be judged, and the evidence as a whole."""

from __future__ import annotations

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.number_text import MOST_NAMED
from whyidle.model.signals import SIGNALS
from whyidle.reports._number_format import format_percent, format_seconds
from whyidle.reports._sections import Facts, Folded, Items, Line, Section, Span

_CAUSES = 6
"""causes named of one signal; the document has all"""


def unjudged_section(diagnosis: Diagnosis) -> Section | None:
    """The causes that could not be judged, by what would record their signals; None without any."""
    groups: dict[str, tuple[list[str], list[str]]] = {}
    for signal, causes in _by_signal(diagnosis).items():
        meaning, how = SIGNALS.get(signal, (signal, ""))
        meanings, lacking = groups.setdefault(how, ([], []))
        meanings.append(meaning)
        lacking += causes
    if not groups:
        return None
    rows: list[Line] = []
    for how, (meanings, causes) in groups.items():
        more = f" and {len(causes) - _CAUSES} more" if len(causes) > _CAUSES else ""
        listed = f" not recorded: {', '.join(causes[:_CAUSES])}{more}. "
        tip = Span(f"To record it, {how}." if how else "", "dim")
        rows.append([Span("; ".join(meanings), "strong"), listed, tip])
    return Section(
        "Causes that could not be judged",
        [Folded(describe_unjudged(diagnosis), [Items(rows)])],
        "abstentions",
    )


def describe_unjudged(diagnosis: Diagnosis) -> str:
    """How many causes could not be judged, and what the recording lacks for most of them."""
    missing = _by_signal(diagnosis)
    names = [SIGNALS[signal].meaning if signal in SIGNALS else signal for signal in missing]
    more = f"; and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    count = len(diagnosis.abstentions)
    return (
        f"{count} cause{'s' if count != 1 else ''} not checked, because the recording lacks "
        f"{'; '.join(names[:MOST_NAMED])}{more}"
    )


def _by_signal(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Each cause under the first signal that it lacks, the signals that most causes lack first."""
    missing: dict[str, list[str]] = {}
    for item in diagnosis.abstentions:
        for signal in item.missing[:1]:
            missing.setdefault(signal, []).append(item.cause)
    return dict(sorted(missing.items(), key=lambda pair: -len(pair[1])))


def coverage_section(diagnosis: Diagnosis) -> Section:
    """The recorded evidence, its notes and its precision."""
    coverage, run = diagnosis.coverage, diagnosis.run
    clock_error, overhead = coverage.clock_error_s, coverage.overhead_ratio
    sources = [source.replace("\\", "/").rpartition("/")[2] for source in run.sources]
    facts: list[tuple[str, str | None]] = [
        ("run", run.job),
        ("of", ", ".join(sources[:4]) + (f" and {len(sources) - 4} more" if sources[4:] else "")),
        ("signals", ", ".join(signal.replace("_", " ") for signal in coverage.signals)),
        ("duration", format_seconds(run.duration_s) if run.duration_s is not None else ""),
        ("hosts", ", ".join(run.hosts)),
        ("clocks", f"agree to {format_seconds(clock_error)}" if clock_error is not None else ""),
        ("overhead", f"{format_percent(overhead)} by whyidle" if overhead is not None else ""),
        ("made by", f"whyidle {run.whyidle}, {diagnosis.schema}, {run.id}"),
    ]
    rows: list[tuple[str, Line]] = [(label, text) for label, text in facts if text]
    notes = [Items(coverage.notes)] if coverage.notes else []
    return Section("Coverage", [*notes, Facts(rows)], "coverage")
