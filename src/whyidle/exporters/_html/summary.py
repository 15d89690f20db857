"""The top of the page: verdict, key numbers, attribution bar, and the time of every step."""

from __future__ import annotations

from whyidle.exporters._ending import ending
from whyidle.exporters._html.element import Markup, e
from whyidle.exporters._palette import LOOKS, Look
from whyidle.exporters._trials import first_fix
from whyidle.exporters._words import bracketed, factor, percent, seconds, size
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


def masthead(diagnosis: Diagnosis) -> Markup:
    """What was looked at, in one line."""
    run, device = diagnosis.run, diagnosis.device
    parts = [
        f"{device.count} × {device.name}" if device.name else device.kind.upper(),
        f"{run.ranks} ranks" if run.ranks > 1 else None,
        run.framework,
        run.job or (" ".join(run.command) if run.command else _names(run.sources)),
    ]
    return e(
        "header",
        e("span", "why", e("b", "idle"), class_="brand"),
        e("span", " · ".join(part for part in parts if part), class_="about"),
        e("button", "◐", id="theme", type="button", title="Light or dark", aria_label="Theme"),
        class_="mast",
    )


def _names(sources: list[str]) -> str:
    names = [source.replace("\\", "/").rsplit("/", 1)[-1] for source in sources]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more


def verdict(diagnosis: Diagnosis) -> Markup:
    """The answer, and the numbers behind it."""
    state, meaning = STATES[diagnosis.verdict.state]
    bound, fix = diagnosis.verdict.bound, first_fix(diagnosis)
    first, end, rest = sentences(diagnosis.verdict.headline)
    colour = LOOKS[bound].colour if bound else LOOKS["unknown"].colour
    word, said = ending(diagnosis)
    return e(
        "section",
        e("p", e("b", word), f" · {said}.", class_=f"state {word}") if said else None,
        e("p", e("b", state), " · ", meaning, class_=f"state {diagnosis.verdict.state}"),
        e("h1", first, end),
        e("p", rest, class_="second") if rest else None,
        e("dl", *[tile(*one) for one in _tiles(diagnosis)], class_="tiles"),
        e("p", e("b", "First fix: "), fix.summary, class_="first") if fix else None,
        class_="verdict",
        style=f"--accent:{colour}",
    )


def sentences(headline: str) -> tuple[str, str, str]:
    """The first sentence stands alone; what follows explains it."""
    first, end, rest = headline.partition(". ")
    return first, end.strip(), rest


def tile(title: str, value: str, note: str) -> Markup:
    """A key number with its name above and what it is of below."""
    return e("div", e("dt", title), e("dd", value, e("small", note)))


def _tiles(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    steps, used = diagnosis.steps, diagnosis.utilization
    tiles = []
    if diagnosis.attribution.unknown < 1.0:
        tiles.append(("useful compute", percent(diagnosis.attribution.compute), "of the step"))
    if steps.mean_s is not None:
        warm = f", {steps.warmup} left out" if steps.warmup else ""
        plural = "s" if steps.count != 1 else ""
        tiles.append(
            ("step time", seconds(steps.mean_s), f"{steps.count} steady step{plural}{warm}")
        )
    fix = first_fix(diagnosis)
    if fix is not None and fix.predicted:
        told = fix.predicted
        tiles.append(
            (
                "with the first fix",
                f"{factor(told.speedup)}×",
                f"as fast{bracketed(told.low, told.high)}",
            )
        )
    for title, value, note in (
        ("device busy", used.busy, "any activity"),
        ("tensor cores active", used.tensor_active, "of the step"),
        ("model FLOPs utilisation", used.mfu, "of the dense peak"),
    ):
        tiles += [(title, percent(value), note)] if value is not None else []
    if used.memory_peak_bytes is not None:
        whole = diagnosis.device.memory_bytes
        note = f"of {size(whole)}" if whole else "allocated"
        tiles.append(("memory peak", size(used.memory_peak_bytes), note))
    if steps.samples_per_s is not None:
        tiles.append(("throughput", f"{steps.samples_per_s:,.0f}", "samples per second"))
    return tiles


def attribution(diagnosis: Diagnosis) -> Markup:
    """Where the step goes: one bar, its legend, and the finer reasons."""
    legend = [
        e(
            "li",
            e("i", class_=f"dot {key}"),
            e("b", percent(share)),
            e("span", look.title, e("small", look.means)),
        )
        for look, share, key in _shown(diagnosis.attribution)
    ]
    return e(
        "section",
        e(
            "h2",
            "Where the step goes" if diagnosis.detail.fixed is None else "Where the step went",
        ),
        shares(diagnosis.attribution),
        e("ul", legend, class_="legend"),
        _reasons(diagnosis),
        id="attribution",
    )


def shares(attribution: Attribution) -> Markup:
    """One bar of a step."""
    shown = _shown(attribution)
    bar = [
        e(
            "span",
            e("span", f"{look.title} {percent(share)}") if share >= 0.09 else None,
            class_=f"seg {key}",
            style=f"width:{share * 100:.3f}%",
            title=f"{look.title} {percent(share)}: {look.means}",
        )
        for look, share, key in shown
    ]
    said = ", ".join(f"{look.title} {percent(share)}" for look, share, _ in shown)
    return e("div", bar, class_="bar", role="img", aria_label=said)


def _shown(attribution: Attribution) -> list[tuple[Look, float, str]]:
    listed = [(look, getattr(attribution, key), key) for key, look in LOOKS.items()]
    return [(look, share, key) for look, share, key in listed if share > 0]


def _reasons(diagnosis: Diagnosis) -> Markup | None:
    finer = [r for r in diagnosis.detail.reasons if r.share >= 0.0005 and r.reason != "compute"]
    if not finer:
        return None
    rows = [
        e("tr", e("td", e("i", class_=f"dot {r.bucket}")), e("td", r.meaning), _number(r.share))
        for r in sorted(finer, key=lambda reason: -reason.share)
    ]
    return e(
        "details",
        e("summary", "Finer reasons"),
        e("table", e("tbody", rows), class_="plain"),
    )


def _number(share: float) -> Markup:
    return e("td", percent(share), class_="n")


def steps(diagnosis: Diagnosis) -> Markup | None:
    """The time of every step as a strip; steady steps are split by bucket where that is known."""
    times = diagnosis.detail.step_times_s[:_STRIP_STEPS]
    if diagnosis.steps.mean_s is None or len(times) < 2:
        return None
    steady = (diagnosis.detail.steady or [True] * len(times))[: len(times)]
    longest = max(times) or 1.0
    tallest = min(longest, _TALLEST * (diagnosis.steps.p95_s or longest))
    width = max(3.0, min(56.0, 960 / len(times)))
    fills = _fills(diagnosis, steady)
    bars = [
        e(
            "span",
            class_="step" if ok else "step warm",
            style=f"height:{max(2.0, min(s, tallest) / tallest * _STRIP_HEIGHT):.1f}px;"
            f"width:{width:.1f}px" + fills.get(i, ""),
            title=f"step {i + 1}: {seconds(s)}{'' if ok else ' (left out of all figures)'}",
        )
        for i, (s, ok) in enumerate(zip(times, steady, strict=True))
    ]
    told = diagnosis.steps
    spread = [
        f"median {seconds(told.p50_s)}",
        f"95th percentile {seconds(told.p95_s)}",
        f"longest shown {seconds(longest)}" + (", its bar cut" if longest > tallest else ""),
        f"found by {told.detected_by}" if told.detected_by else None,
        f"confidence {told.confidence:.0%}" if told.confidence is not None else None,
    ]
    more = len(diagnosis.detail.step_times_s) - len(times)
    return e(
        "section",
        e("h2", "Step by step"),
        e("div", bars, class_="strip", role="img", aria_label=f"{len(times)} step times"),
        e(
            "p",
            " · ".join(part for part in spread if part),
            e("span", e("i", class_="dot warmup"), _LEFT_OUT, class_="key")
            if not all(steady)
            else None,
            f" · {more} more steps are not drawn" if more > 0 else None,
            class_="note",
        ),
        id="steps",
    )


def _fills(diagnosis: Diagnosis, steady: list[bool]) -> dict[int, str]:
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
    return {i: _gradient(shares) for i, shares in zip(indices, split, strict=False)}


def _gradient(shares: Attribution) -> str:
    stops, at = [], 0.0
    for bucket, look in LOOKS.items():
        share = getattr(shares, bucket) * 100
        if share >= 0.5:
            stops.append(f"{look.colour} {at:.0f}% {at + share:.0f}%")
        at += share
    return f";background:linear-gradient(to top,{','.join(stops)})" if len(stops) > 1 else ""
