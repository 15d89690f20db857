"""The top of the page: verdict, key numbers, attribution and step times."""

from __future__ import annotations

from whyidle.model.diagnosis import Attribution, Diagnosis
from whyidle.reports._html.element import Markup, tag
from whyidle.reports._number_format import format_seconds
from whyidle.reports._palette import LOOKS

_EXCLUDED = "excluded: warm-up, cut off, or in a burst"


def describe_run(diagnosis: Diagnosis) -> str:
    """Describe device, ranks, framework and job, for the first line of the page."""
    run, device = diagnosis.run, diagnosis.device
    parts = [
        f"{device.count} × {device.name}" if device.name else device.kind.upper(),
        f"{run.ranks} ranks" if run.ranks > 1 else None,
        run.framework,
        diagnosis.recording.title if diagnosis.recording else None,
        run.job or (" ".join(run.command) if run.command else _format_sources(run.sources)),
    ]
    return " · ".join(part for part in parts if part)


def _format_sources(sources: list[str]) -> str:
    names = [source.replace("\\", "/").rsplit("/", 1)[-1] for source in sources]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more


def render_steps(diagnosis: Diagnosis) -> Markup | None:
    """Render the time of every step; steady steps are split by bucket where that is known."""
    times = diagnosis.detail.step_times_s[:240]
    if diagnosis.steps.mean_s is None or len(times) < 2:
        return None
    steady = (diagnosis.detail.steady or [True] * len(times))[: len(times)]
    longest = max(times) or 1.0
    # one long step must not flatten the others: bars end at four 95th percentiles
    tallest = min(longest, 4.0 * (diagnosis.steps.p95_s or longest))
    width = max(3.0, min(56.0, 960 / len(times)))
    fills = _step_fills(diagnosis, steady)
    bars = [
        tag(
            "span",
            class_="step" if ok else "step warm",
            style=f"height:{max(2.0, min(s, tallest) / tallest * 72):.1f}px;"
            f"width:{width:.1f}px" + fills.get(i, ""),
            title=f"step {i + 1}: {format_seconds(s)}{'' if ok else ' (excluded)'}",
        )
        for i, (s, ok) in enumerate(zip(times, steady, strict=True))
    ]
    steps = diagnosis.steps
    spread = [
        f"median {format_seconds(steps.p50_s)}",
        f"95th percentile {format_seconds(steps.p95_s)}",
        f"longest shown {format_seconds(longest)}" + (" (bar cut)" if longest > tallest else ""),
        f"detected by {steps.detected_by}" if steps.detected_by else None,
        f"confidence {steps.confidence:.0%}" if steps.confidence is not None else None,
    ]
    more = len(diagnosis.detail.step_times_s) - len(times)
    return tag(
        "section",
        tag("h2", "Step times"),
        tag("div", bars, class_="strip", role="img", aria_label=f"{len(times)} step times"),
        tag(
            "p",
            " · ".join(part for part in spread if part),
            tag("span", tag("i", class_="dot warmup"), _EXCLUDED, class_="key")
            if not all(steady)
            else None,
            f" · {more} more steps are not shown" if more > 0 else None,
            class_="note",
        ),
        id="steps",
    )


def _step_fills(diagnosis: Diagnosis, steady: list[bool]) -> dict[int, str]:
    rows, picture = diagnosis.detail.ranks, diagnosis.detail.picture
    mine = [row for row in rows if picture and row.rank == picture.rank] or rows
    if len(mine) != 1:
        return {}
    split = mine[0].steps
    indices = [i for i, ok in enumerate(steady) if ok]
    if len(split) == len(diagnosis.detail.step_times_s):
        indices = list(range(len(steady)))
    elif len(split) != sum(diagnosis.detail.steady):
        return {}
    return {i: _bucket_gradient(shares) for i, shares in zip(indices, split, strict=False)}


def _bucket_gradient(shares: Attribution) -> str:
    stops, at = [], 0.0
    for bucket, look in LOOKS.items():
        share = getattr(shares, bucket) * 100
        if share >= 0.5:
            stops.append(f"{look.colour} {at:.0f}% {at + share:.0f}%")
        at += share
    return f";background:linear-gradient(to top,{','.join(stops)})" if len(stops) > 1 else ""
