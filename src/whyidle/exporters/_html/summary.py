"""The top of the page: verdict, key numbers, attribution and step times."""

from __future__ import annotations

from whyidle.exporters._exit_status import describe_exit
from whyidle.exporters._html.element import Markup, tag
from whyidle.exporters._number_format import (
    format_bracketed,
    format_bytes,
    format_factor,
    format_percent,
    format_seconds,
)
from whyidle.exporters._palette import LOOKS, Look
from whyidle.exporters._trials_page import first_fix, label_first_fix
from whyidle.model.diagnosis import Attribution, Diagnosis, ProposedFix

STATES = {
    "starved": ("Starved", "the device waits"),
    "inefficient": ("Inefficient", "the device is busy with work that could be cheaper"),
    "saturated": ("Saturated", "no cause worth more than 3% was found"),
    "inconclusive": ("Inconclusive", "the evidence is insufficient"),
}
_TILES_IN_A_ROW = 6
_STRIP_STEPS = 240
_STRIP_HEIGHT = 72
_TALLEST = 4.0
"""maximum height of a bar in 95th percentiles, so that one long step does not flatten the others"""
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


def render_verdict(diagnosis: Diagnosis) -> Markup:
    """Render the verdict and the key numbers."""
    state, meaning = STATES[diagnosis.verdict.state]
    bound, fix = diagnosis.verdict.bound, first_fix(diagnosis)
    first, end, rest = split_headline(diagnosis.verdict.headline)
    colour = LOOKS[bound].colour if bound else LOOKS["unknown"].colour
    word, text = describe_exit(diagnosis)
    return tag(
        "section",
        tag("p", tag("b", word), f" · {text}.", class_=f"state {word}") if text else None,
        tag("p", tag("b", state), " · ", meaning, class_=f"state {diagnosis.verdict.state}"),
        tag("h1", first, end),
        tag("p", rest, class_="second") if rest else None,
        render_tiles(_summary_tiles(diagnosis)),
        tag("p", tag("b", f"{label_first_fix(fix).capitalize()}: "), fix.summary, class_="first")
        if fix
        else None,
        class_="verdict",
        style=f"--accent:{colour}",
    )


def _render_first_fix(fix: ProposedFix) -> Markup:
    label = f"{label_first_fix(fix).capitalize()}: "
    return tag("p", tag("b", label), fix.summary, class_="first")


def split_headline(headline: str) -> tuple[str, str, str]:
    """Split a headline into its first sentence, the full stop and the explanation."""
    first, end, rest = headline.partition(". ")
    return first, end.strip(), rest


def render_tiles(tiles: list[tuple[str, str, str]]) -> Markup:
    """Render key numbers, in rows of equal length where they need more than one."""
    rows = -(-len(tiles) // _TILES_IN_A_ROW)
    columns = -(-len(tiles) // max(rows, 1))
    shown = [render_tile(*tile) for tile in tiles]
    return tag("dl", *shown, class_="tiles", style=f"--columns:{max(columns, 4)}")


def render_tile(title: str, value: str, note: str) -> Markup:
    """Render a key number with its name and a note."""
    return tag("div", tag("dt", title), tag("dd", value, tag("small", note)))


def _summary_tiles(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    steps, used = diagnosis.steps, diagnosis.utilization
    tiles = []
    if diagnosis.attribution.unknown < 1.0:
        tiles.append(
            ("useful compute", format_percent(diagnosis.attribution.compute), "of the step")
        )
    if steps.mean_s is not None:
        warm = f", {steps.warmup} excluded" if steps.warmup else ""
        plural = "s" if steps.count != 1 else ""
        tiles.append(
            ("step time", format_seconds(steps.mean_s), f"{steps.count} steady step{plural}{warm}")
        )
    fix = first_fix(diagnosis)
    if fix is not None and fix.predicted:
        note = f"as fast{format_bracketed(fix.predicted.low, fix.predicted.high)}"
        tiles.append(("with the first fix", f"{format_factor(fix.predicted.speedup)}×", note))
    for title, value, note in (
        ("device busy", used.busy, "any activity"),
        ("tensor cores active", used.tensor_active, "of the step"),
        ("model FLOPs utilisation", used.mfu, "of the dense peak"),
    ):
        tiles += [(title, format_percent(value), note)] if value is not None else []
    if used.memory_peak_bytes is not None:
        total = diagnosis.device.memory_bytes
        note = f"of {format_bytes(total)}" if total else "allocated"
        tiles.append(("memory peak", format_bytes(used.memory_peak_bytes), note))
    if steps.samples_per_s is not None:
        tiles.append(("throughput", f"{steps.samples_per_s:,.0f}", "samples per second"))
    return tiles


def render_attribution(diagnosis: Diagnosis) -> Markup:
    """Render the attribution: a bar, its legend and the finer reasons."""
    legend = [
        tag(
            "li",
            tag("i", class_=f"dot {key}"),
            tag("b", format_percent(share)),
            tag("span", look.title, tag("small", look.means)),
        )
        for look, share, key in _visible_shares(diagnosis.attribution)
    ]
    return tag(
        "section",
        tag(
            "h2", "Where the step goes" if diagnosis.detail.fixed is None else "Where the step went"
        ),
        render_shares(diagnosis.attribution),
        tag("ul", legend, class_="legend"),
        _render_reasons(diagnosis),
        id="attribution",
    )


def render_shares(attribution: Attribution) -> Markup:
    """Render the attribution as a bar."""
    shown = _visible_shares(attribution)
    bar = [
        tag(
            "span",
            tag("span", f"{look.title} {format_percent(share)}") if share >= 0.09 else None,
            class_=f"seg {key}",
            style=f"width:{share * 100:.3f}%",
            title=f"{look.title} {format_percent(share)}: {look.means}",
        )
        for look, share, key in shown
    ]
    label = ", ".join(f"{look.title} {format_percent(share)}" for look, share, _ in shown)
    return tag("div", bar, class_="bar", role="img", aria_label=label)


def _visible_shares(attribution: Attribution) -> list[tuple[Look, float, str]]:
    listed = [(look, getattr(attribution, key), key) for key, look in LOOKS.items()]
    return [(look, share, key) for look, share, key in listed if share > 0]


def _render_reasons(diagnosis: Diagnosis) -> Markup | None:
    finer = [r for r in diagnosis.detail.reasons if r.share >= 0.0005 and r.reason != "compute"]
    if not finer:
        return None
    rows = [
        tag(
            "tr",
            tag("td", tag("i", class_=f"dot {r.bucket}")),
            tag("td", r.meaning),
            tag("td", format_percent(r.share), class_="n"),
        )
        for r in sorted(finer, key=lambda reason: -reason.share)
    ]
    return tag(
        "details", tag("summary", "Finer reasons"), tag("table", tag("tbody", rows), class_="plain")
    )


def render_steps(diagnosis: Diagnosis) -> Markup | None:
    """Render the time of every step; steady steps are split by bucket where that is known."""
    times = diagnosis.detail.step_times_s[:_STRIP_STEPS]
    if diagnosis.steps.mean_s is None or len(times) < 2:
        return None
    steady = (diagnosis.detail.steady or [True] * len(times))[: len(times)]
    longest = max(times) or 1.0
    tallest = min(longest, _TALLEST * (diagnosis.steps.p95_s or longest))
    width = max(3.0, min(56.0, 960 / len(times)))
    fills = _step_fills(diagnosis, steady)
    bars = [
        tag(
            "span",
            class_="step" if ok else "step warm",
            style=f"height:{max(2.0, min(s, tallest) / tallest * _STRIP_HEIGHT):.1f}px;"
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
