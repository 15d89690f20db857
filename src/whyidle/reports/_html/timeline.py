"""The picture of a typical step; the page's script makes it interactive."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.step_timeline import Lane, Picture
from whyidle.reports._html.element import Markup, tag
from whyidle.reports._number_format import format_seconds
from whyidle.reports._palette import colour_of, title_of

WIDTH = 1000
HEIGHTS = {"gap": 26, "device": 22, "host": 18}
_NAME = 15
_HELP = (
    "Timeline of a typical step. Arrow keys move, plus and minus zoom, zero shows all, "
    "N and P go to the next and previous gap."
)


def render_timeline(diagnosis: Diagnosis) -> Markup | None:
    """Render the timeline; None without a picture."""
    picture = diagnosis.detail.picture
    if picture is None or not picture.lanes:
        return None
    rank = (
        f" of rank {picture.rank}" if picture.rank is not None and diagnosis.run.ranks > 1 else ""
    )
    hidden = sum(lane.dropped for lane in picture.lanes)
    note = f"{hidden:,} very short bars are joined with their neighbours. " if hidden else ""
    keys = [
        tag("span", tag("i", class_="dot", style=f"background:{colour_of(name)}"), title_of(name))
        for name in _list_groups(picture)
    ]
    return tag(
        "section",
        tag(
            "h2",
            "A typical step" if diagnosis.steps.mean_s is not None else "The recording",
            tag("small", f"{picture.step}{rank}, {format_seconds(picture.duration_s)}"),
        ),
        tag("p", keys, class_="keys"),
        tag(
            "div",
            _render_svg(picture),
            tag("div", id="tip", role="status", hidden=True),
            id="timeline",
            tabindex="0",
            role="group",
            aria_label=_HELP,
        ),
        tag("p", tag("span", _render_controls(), class_="controls"), note, class_="note"),
        id="picture",
    )


def _render_controls() -> list[Markup]:
    buttons = (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("all", "all", "Show all"))
    return [
        *(
            tag("button", face, type="button", data_zoom=key, title=title, aria_label=title)
            for key, face, title in buttons
        ),
        tag(
            "span",
            "drag to move · Ctrl + wheel to zoom · N / P next or previous gap",
            class_="hint",
        ),
    ]


def _list_groups(picture: Picture) -> list[str]:
    """Groups of the gap and device lanes, those with the most time first."""
    time: dict[tuple[bool, str], float] = defaultdict(float)
    for lane in picture.lanes:
        if lane.kind != "host":
            for bar in lane.slices:
                time[lane.kind != "gap", bar.group] += bar.duration_s * bar.filled
    ordered = sorted(time, key=lambda key: (key[0], -time[key]))
    return list(dict.fromkeys(group for _, group in ordered))


def _render_svg(picture: Picture) -> Markup:
    scale = WIDTH / (picture.duration_s or 1.0)
    parts, top = [], 18  # below the axis
    for lane in picture.lanes:
        parts.append(tag("text", lane.name, x=0, y=top + 10))
        parts += _lane_paths(lane, scale, top + _NAME)
        top += _NAME + HEIGHTS[lane.kind] + 6
    return tag(
        "svg",
        tag("g", [_render_tick(i, picture.duration_s, top) for i in range(5)], class_="axis"),
        parts,
        viewBox=f"0 0 {WIDTH} {top}",
        role="img",
        aria_label="Lanes of a typical step",
    )


def _render_tick(i: int, duration_s: float, bottom: int) -> Markup:
    x = i * WIDTH / 5
    return Markup(
        tag("line", x1=x, x2=x, y1=0, y2=bottom)
        + tag("text", format_seconds(duration_s * i / 5), x=x + 3, y=10)
    )


def _lane_paths(lane: Lane, scale: float, top: int) -> list[Markup]:
    height = HEIGHTS[lane.kind]
    solid: dict[str, list[str]] = defaultdict(list)
    faint: dict[str, list[str]] = defaultdict(list)
    for bar in lane.slices:
        x, width = bar.start_s * scale, max(bar.duration_s * scale, 0.3)
        tall = height * bar.filled
        solid[bar.group].append(
            f"M{x:.1f} {top + height - tall:.1f}h{width:.1f}v{tall:.1f}h-{width:.1f}z"
        )
        # with a backdrop, a bar that is filled less would look like one long bar
        if 0.25 <= bar.filled < 0.95:
            faint[bar.group].append(f"M{x:.1f} {top}h{width:.1f}v{height}h-{width:.1f}z")
    return [
        tag("path", d="".join(path), fill=colour_of(group), opacity=opacity)
        for paths, opacity in ((faint, 0.3), (solid, None))
        for group, path in paths.items()
    ]


def timeline_data(picture: Picture | None) -> dict[str, Any] | None:
    """The picture as data for the script: times in ns, texts by index, bars as ``[start, length,
    label, group, members, filled in %]``."""
    if picture is None:
        return None
    labels: dict[str, int] = {}
    groups: dict[str, int] = {}
    lanes = [
        {
            "name": lane.name,
            "kind": lane.kind,
            "height": HEIGHTS[lane.kind],
            "bars": [
                [
                    round(bar.start_s * 1e9),
                    round(bar.duration_s * 1e9),
                    labels.setdefault(bar.label, len(labels)),
                    groups.setdefault(bar.group, len(groups)),
                    bar.members,
                    round(bar.filled * 100),
                ]
                for bar in lane.slices
            ],
        }
        for lane in picture.lanes
    ]
    return {
        "duration": round(picture.duration_s * 1e9),
        "lanes": lanes,
        "labels": list(labels),
        "groups": [{"title": title_of(g), "colour": colour_of(g)} for g in groups],
    }
