"""Abstentions and coverage."""

from __future__ import annotations

from collections import Counter, defaultdict

from whyidle.exporters._html.element import Markup, tag
from whyidle.exporters._number_format import NONE, format_percent, format_seconds
from whyidle.model.diagnosis import Diagnosis

_NAMED = 3
"""signals named in the summary, those that most causes need first"""


def render_abstentions(diagnosis: Diagnosis) -> Markup | None:
    """Render the abstentions, grouped by missing signals."""
    if not diagnosis.abstentions:
        return None
    by_need: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in diagnosis.abstentions:
        by_need[", ".join(item.missing), item.how].append(item.cause)
    rows = [
        tag(
            "li",
            tag("p", [tag("code", cause) for cause in causes], class_="where"),
            tag(
                "p",
                tag("b", missing.replace("_", " ")),
                " not recorded. " if how else " not recorded",
                how,
            ),
        )
        for (missing, how), causes in sorted(by_need.items(), key=lambda kv: -len(kv[1]))
    ]
    missing = Counter(signal for item in diagnosis.abstentions for signal in item.missing)
    names = [signal.replace("_", " ") for signal, _ in missing.most_common()]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    needs = f"{', '.join(names[:_NAMED])}{more} were not recorded"
    return tag(
        "section",
        tag("h2", "Causes that could not be judged"),
        tag(
            "details",
            tag("summary", f"{len(diagnosis.abstentions)} causes, because {needs}"),
            tag("ul", rows, class_="needs"),
        ),
        id="abstentions",
    )


def render_coverage(diagnosis: Diagnosis) -> Markup:
    """Render the recorded evidence, its notes and its precision."""
    coverage, run = diagnosis.coverage, diagnosis.run
    clock_error, overhead = coverage.clock_error_s, coverage.overhead_ratio
    facts = [
        ("recordings", [tag("code", source) for source in run.sources]),
        ("signals", ", ".join(signal.replace("_", " ") for signal in coverage.signals) or NONE),
        ("duration", format_seconds(run.duration_s) if run.duration_s is not None else ""),
        ("hosts", ", ".join(run.hosts)),
        ("clock error", format_seconds(clock_error) if clock_error is not None else ""),
        ("overhead of whyidle", format_percent(overhead) if overhead is not None else ""),
        ("made by", f"whyidle {run.whyidle}, {diagnosis.schema}, {run.id}"),
    ]
    notes = [tag("li", note) for note in coverage.notes]
    rows = [(tag("dt", key), tag("dd", value)) for key, value in facts if value]
    return tag(
        "section",
        tag("h2", "Coverage"),
        tag("ul", notes, class_="notes") if notes else None,
        tag("dl", rows, class_="facts"),
        id="coverage",
    )
