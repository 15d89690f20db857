"""The picture of a typical step: drawn once here, and made explorable by the page's script."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from whyidle.exporters._html.element import Markup, element
from whyidle.exporters._number_format import format_seconds
from whyidle.exporters._palette import colour_of, title_of
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.picture import Lane, Picture

WIDTH = 1000
HEIGHTS = {"gap": 26, "device": 22, "host": 18}
_SPACE = 6
_NAME = 15
_AXIS = 18
_FAINT = 0.25
"""below this share a joined bar gets no backdrop: it would look like one long bar"""
_HELP = (
    "Timeline of a typical step. Arrow keys move, plus and minus zoom, zero shows all, "
    "N and P go to the next and previous lost stretch."
)


def render_timeline(diagnosis: Diagnosis) -> Markup | None:
    """The section, or None without a picture."""
    picture = diagnosis.detail.picture
    if picture is None or not picture.lanes:
        return None
    rank = (
        f" of rank {picture.rank}" if picture.rank is not None and diagnosis.run.ranks > 1 else ""
    )
    hidden = sum(lane.dropped for lane in picture.lanes)
    note = f"{hidden:,} bars too short to draw are joined with their neighbours. " if hidden else ""
    return element(
        "section",
        element(
            "h2",
            "A typical step",
            element("small", f"{picture.step}{rank}, {format_seconds(picture.duration_s)}"),
        ),
        element("p", [_group_key(group) for group in _list_groups(picture)], class_="keys"),
        element(
            "div",
            _render_svg(picture),
            element("div", id="tip", role="status", hidden=True),
            id="timeline",
            tabindex="0",
            role="group",
            aria_label=_HELP,
        ),
        element(
            "p",
            element("span", _render_controls(), class_="controls"),
            note,
            _every_event(diagnosis),
            class_="note",
        ),
        id="picture",
    )


def _every_event(diagnosis: Diagnosis) -> list[str | Markup]:
    """Where each event can be seen: nowhere of a watched command, which leaves no trace file."""
    if diagnosis.run.command is not None:
        return []
    command = element("code", "whyidle explain TRACE --perfetto annotated.json.gz")
    return ["For every event, write the annotated trace: ", command]


def _render_controls() -> list[Markup]:
    buttons = (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("all", "all", "Show all"))
    return [
        *(
            element("button", face, type="button", data_zoom=key, title=title, aria_label=title)
            for key, face, title in buttons
        ),
        element(
            "span", "drag to move · Ctrl + wheel to zoom · N / P next lost stretch", class_="hint"
        ),
    ]


def _list_groups(picture: Picture) -> list[str]:
    """Groups on the lanes of lost time and of the device, those with the most time first."""
    time: dict[tuple[bool, str], float] = defaultdict(float)
    for lane in picture.lanes:
        if lane.kind != "host":
            for bar in lane.slices:
                time[lane.kind != "gap", bar.group] += bar.duration_s * bar.filled
    ordered = sorted(time, key=lambda key: (key[0], -time[key]))
    return list(dict.fromkeys(group for _, group in ordered))


def _group_key(group: str) -> Markup:
    return element(
        "span", element("i", class_="dot", style=f"background:{colour_of(group)}"), title_of(group)
    )


def _render_svg(picture: Picture) -> Markup:
    """Every lane as one path per colour, so that the page stays small."""
    scale = WIDTH / (picture.duration_s or 1.0)
    parts, top = [], _AXIS
    for lane in picture.lanes:
        parts.append(element("text", lane.name, x=0, y=top + 10))
        parts += _lane_paths(lane, scale, top + _NAME)
        top += _NAME + HEIGHTS[lane.kind] + _SPACE
    return element(
        "svg",
        element("g", [_render_tick(i, picture.duration_s, top) for i in range(5)], class_="axis"),
        parts,
        viewBox=f"0 0 {WIDTH} {top}",
        role="img",
        aria_label="Lanes of a typical step",
    )


def _render_tick(i: int, duration_s: float, bottom: int) -> Markup:
    x = i * WIDTH / 5
    return Markup(
        element("line", x1=x, x2=x, y1=0, y2=bottom)
        + element("text", format_seconds(duration_s * i / 5), x=x + 3, y=10)
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
        if _FAINT <= bar.filled < 0.95:
            faint[bar.group].append(f"M{x:.1f} {top}h{width:.1f}v{height}h-{width:.1f}z")
    return [
        element("path", d="".join(drawn), fill=colour_of(group), opacity=opacity)
        for paths, opacity in ((faint, 0.3), (solid, None))
        for group, drawn in paths.items()
    ]


def timeline_data(picture: Picture | None) -> dict[str, Any] | None:
    """The picture for the script: times in ns, texts by number, bars as
    ``[start, length, label, group, members, filled in %]``."""
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
