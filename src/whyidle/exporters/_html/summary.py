"""The top of the page: verdict, key numbers, attribution bar, and the time of every step."""

from __future__ import annotations

from whyidle.exporters._exit_status import describe_exit
from whyidle.exporters._html.element import Markup, element
from whyidle.exporters._number_format import (
    format_bracketed,
    format_bytes,
    format_factor,
    format_percent,
    format_seconds,
)
from whyidle.exporters._palette import LOOKS, Look
from whyidle.exporters._trials_page import first_fix
from whyidle.model.diagnosis import Attribution, Diagnosis

STATES = {
    "starved": ("Starved", "the device waits for something else"),
    "inefficient": ("Inefficient", "the device is busy with work that could be cheaper"),
    "saturated": ("Healthy", "no cause worth more than 3% was found"),
    "inconclusive": ("Inconclusive", "the recording does not tell"),
}
_STRIP_STEPS = 240
_STRIP_HEIGHT = 72
_TALLEST = 4.0
"""bars end at so many times the 95th percentile of steps: one long wait would flatten all others"""
_LEFT_OUT = "left out: warm-up, cut short, or recorded in detail"


def render_masthead(diagnosis: Diagnosis) -> Markup:
    """What was looked at, in one line."""
    run, device = diagnosis.run, diagnosis.device
    parts = [
        f"{device.count} × {device.name}" if device.name else device.kind.upper(),
        f"{run.ranks} ranks" if run.ranks > 1 else None,
        run.framework,
        run.job or (" ".join(run.command) if run.command else _format_sources(run.sources)),
    ]
    return element(
        "header",
        element("span", "why", element("b", "idle"), class_="brand"),
        element("span", " · ".join(part for part in parts if part), class_="about"),
        element(
            "button", "◐", id="theme", type="button", title="Light or dark", aria_label="Theme"
        ),
        class_="mast",
    )


def _format_sources(sources: list[str]) -> str:
    names = [source.replace("\\", "/").rsplit("/", 1)[-1] for source in sources]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more


def render_verdict(diagnosis: Diagnosis) -> Markup:
    """The answer, and the numbers behind it."""
    state, meaning = STATES[diagnosis.verdict.state]
    bound, fix = diagnosis.verdict.bound, first_fix(diagnosis)
    first, end, rest = split_headline(diagnosis.verdict.headline)
    colour = LOOKS[bound].colour if bound else LOOKS["unknown"].colour
    word, said = describe_exit(diagnosis)
    return element(
        "section",
        element("p", element("b", word), f" · {said}.", class_=f"state {word}") if said else None,
        element(
            "p", element("b", state), " · ", meaning, class_=f"state {diagnosis.verdict.state}"
        ),
        element("h1", first, end),
        element("p", rest, class_="second") if rest else None,
        element("dl", *[render_tile(*one) for one in _summary_tiles(diagnosis)], class_="tiles"),
        element("p", element("b", "First fix: "), fix.summary, class_="first") if fix else None,
        class_="verdict",
        style=f"--accent:{colour}",
    )


def split_headline(headline: str) -> tuple[str, str, str]:
    """The first sentence stands alone; what follows explains it."""
    first, end, rest = headline.partition(". ")
    return first, end.strip(), rest


def render_tile(title: str, value: str, note: str) -> Markup:
    """A key number with its name above and what it is of below."""
    return element("div", element("dt", title), element("dd", value, element("small", note)))


def _summary_tiles(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    steps, used = diagnosis.steps, diagnosis.utilization
    tiles = []
    if diagnosis.attribution.unknown < 1.0:
        tiles.append(
            ("useful compute", format_percent(diagnosis.attribution.compute), "of the step")
        )
    if steps.mean_s is not None:
        warm = f", {steps.warmup} left out" if steps.warmup else ""
        plural = "s" if steps.count != 1 else ""
        tiles.append(
            ("step time", format_seconds(steps.mean_s), f"{steps.count} steady step{plural}{warm}")
        )
    fix = first_fix(diagnosis)
    if fix is not None and fix.predicted:
        told = fix.predicted
        tiles.append(
            (
                "with the first fix",
                f"{format_factor(told.speedup)}×",
                f"as fast{format_bracketed(told.low, told.high)}",
            )
        )
    for title, value, note in (
        ("device busy", used.busy, "any activity"),
        ("tensor cores active", used.tensor_active, "of the step"),
        ("model FLOPs utilisation", used.mfu, "of the dense peak"),
    ):
        tiles += [(title, format_percent(value), note)] if value is not None else []
    if used.memory_peak_bytes is not None:
        whole = diagnosis.device.memory_bytes
        note = f"of {format_bytes(whole)}" if whole else "allocated"
        tiles.append(("memory peak", format_bytes(used.memory_peak_bytes), note))
    if steps.samples_per_s is not None:
        tiles.append(("throughput", f"{steps.samples_per_s:,.0f}", "samples per second"))
    return tiles


def render_attribution(diagnosis: Diagnosis) -> Markup:
    """Where the step goes: one bar, its legend, and the finer reasons."""
    legend = [
        element(
            "li",
            element("i", class_=f"dot {key}"),
            element("b", format_percent(share)),
            element("span", look.title, element("small", look.means)),
        )
        for look, share, key in _visible_shares(diagnosis.attribution)
    ]
    return element(
        "section",
        element(
            "h2", "Where the step goes" if diagnosis.detail.fixed is None else "Where the step went"
        ),
        render_shares(diagnosis.attribution),
        element("ul", legend, class_="legend"),
        _render_reasons(diagnosis),
        id="attribution",
    )


def render_shares(attribution: Attribution) -> Markup:
    """One bar of a step."""
    shown = _visible_shares(attribution)
    bar = [
        element(
            "span",
            element("span", f"{look.title} {format_percent(share)}") if share >= 0.09 else None,
            class_=f"seg {key}",
            style=f"width:{share * 100:.3f}%",
            title=f"{look.title} {format_percent(share)}: {look.means}",
        )
        for look, share, key in shown
    ]
    said = ", ".join(f"{look.title} {format_percent(share)}" for look, share, _ in shown)
    return element("div", bar, class_="bar", role="img", aria_label=said)


def _visible_shares(attribution: Attribution) -> list[tuple[Look, float, str]]:
    listed = [(look, getattr(attribution, key), key) for key, look in LOOKS.items()]
    return [(look, share, key) for look, share, key in listed if share > 0]


def _render_reasons(diagnosis: Diagnosis) -> Markup | None:
    finer = [r for r in diagnosis.detail.reasons if r.share >= 0.0005 and r.reason != "compute"]
    if not finer:
        return None
    rows = [
        element(
            "tr",
            element("td", element("i", class_=f"dot {r.bucket}")),
            element("td", r.meaning),
            _format_share(r.share),
        )
        for r in sorted(finer, key=lambda reason: -reason.share)
    ]
    return element(
        "details",
        element("summary", "Finer reasons"),
        element("table", element("tbody", rows), class_="plain"),
    )


def _format_share(share: float) -> Markup:
    return element("td", format_percent(share), class_="n")


def render_steps(diagnosis: Diagnosis) -> Markup | None:
    """The time of every step as a strip; steady steps are split by bucket where that is known."""
    times = diagnosis.detail.step_times_s[:_STRIP_STEPS]
    if diagnosis.steps.mean_s is None or len(times) < 2:
        return None
    steady = (diagnosis.detail.steady or [True] * len(times))[: len(times)]
    longest = max(times) or 1.0
    tallest = min(longest, _TALLEST * (diagnosis.steps.p95_s or longest))
    width = max(3.0, min(56.0, 960 / len(times)))
    fills = _step_fills(diagnosis, steady)
    bars = [
        element(
            "span",
            class_="step" if ok else "step warm",
            style=f"height:{max(2.0, min(s, tallest) / tallest * _STRIP_HEIGHT):.1f}px;"
            f"width:{width:.1f}px" + fills.get(i, ""),
            title=f"step {i + 1}: {format_seconds(s)}{'' if ok else ' (left out of all figures)'}",
        )
        for i, (s, ok) in enumerate(zip(times, steady, strict=True))
    ]
    told = diagnosis.steps
    spread = [
        f"median {format_seconds(told.p50_s)}",
        f"95th percentile {format_seconds(told.p95_s)}",
        f"longest shown {format_seconds(longest)}" + (", its bar cut" if longest > tallest else ""),
        f"found by {told.detected_by}" if told.detected_by else None,
        f"confidence {told.confidence:.0%}" if told.confidence is not None else None,
    ]
    more = len(diagnosis.detail.step_times_s) - len(times)
    return element(
        "section",
        element("h2", "Step by step"),
        element("div", bars, class_="strip", role="img", aria_label=f"{len(times)} step times"),
        element(
            "p",
            " · ".join(part for part in spread if part),
            element("span", element("i", class_="dot warmup"), _LEFT_OUT, class_="key")
            if not all(steady)
            else None,
            f" · {more} more steps are not drawn" if more > 0 else None,
            class_="note",
        ),
        id="steps",
    )


def _step_fills(diagnosis: Diagnosis, steady: list[bool]) -> dict[int, str]:
    """For the steps whose split by bucket is known, a background in the buckets' colours."""
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
