"""The job takes long to reach its first step."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.sampled_lines import describe_place, lines_with_share
from whyidle.analysis.steps.forecast import from_gains, predict_removal
from whyidle.model.cause import NOTICEABLE, Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration, format_part


@cause(
    "The first step comes late", bucket="interruption", needs=("own_settings", "steps"), direct=True
)
def slow_startup(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Seconds to minutes pass between the framework's import and the first step: more imports, a scan
    of the data set, an index, tokenisation, loading a model, a slow first batch.

    Why it costs
    ------------
    The GPU is idle. A short or often restarted job pays this cost each time; a long one hardly
    notices.

    How it is detected
    ------------------
    The probe records when the framework was imported and when the first step ended; stack samples
    name the lines. A first batch counts if it takes more than a second and five times the median of
    the others. The start is reported from three seconds, not counting imports. If it takes more
    than half of the recording, the prediction covers the whole recording (P9): the lower bound is
    zero, the expected gain is the function with the costliest line, the upper bound the whole
    start. Otherwise the finding is a note, as are starts under 20 seconds of a run with slow steps,
    and starts in a trial of ``whyidle fix``, which ends the job early.

    What looks alike
    ----------------
    Compilation and kernel loading in the first steps are reported as ``compile-autotune-warmup``.
    Workers that restart in each epoch are reported as ``worker-restart-per-epoch``.

    What to do
    ----------
    Store the result of the scan, the index or the tokens on disk. Map large files instead of
    reading them. Import modules only where they are needed. Start loading data before the model is
    built. Use container images with everything installed.

    References
    ----------
    Gao et al., ICSE 2024 (installing libraries for 10 minutes and more: 1.7 % of issues);
    webdataset, issue 267 (first batch after 613 s).
    """
    phases = facts.timeline.phases
    seconds, life = phases.startup_s, phases.life_s
    if not seconds or not life or seconds < NOTICEABLE * life:
        return None
    spans = facts.partition.parts["startup"]
    share = facts.bucket_share("startup")
    found = lines_with_share(facts, spans)
    most = _costliest_share(found)
    at = f", {format_part(most)} {describe_place(found[0][0])}" if found else ""
    gains = (0.0, most * share, share)
    return Proof(
        headline=f"The first step comes {format_duration(seconds)} after the framework is "
        f"imported{at}",
        low=0.0,
        high=share,
        predicted=from_gains(gains, "P9: the recorded time without it")
        if share
        else predict_removal(0.0, 0.0, "P9: no prediction, as steps take most of the time"),
        evidence=(
            make_evidence("from import to first step", seconds, "s", source="clock"),
            make_evidence("share of the process's life", seconds / life, "ratio", source="clock"),
            make_evidence("importing", phases.importing_s or 0.0, "s", source="samples"),
            *_startup_evidence(phases.import_s),
        ),
        confidence=0.9 if found else 0.7,
        where=tuple(place for place, _ in found[:3]),
    )


def _costliest_share(found: list[tuple[Place, float]]) -> float:
    """Share of the samples in the function with the costliest line; in a module's own code, which
    runs once, in that line alone."""
    if not found:
        return 0.0
    first, share = found[0]
    if not (first.function or "").isidentifier():
        return share
    same = (first.file, first.function)
    return sum(part for place, part in found if (place.file, place.function) == same)


def _startup_evidence(seconds: float | None) -> tuple[Evidence, ...]:
    if seconds is None:
        return ()
    return (make_evidence("from start to import", seconds, "s", source="/proc"),)
