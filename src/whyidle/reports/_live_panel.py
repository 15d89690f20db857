"""Renders the lines of the live view, for 40 to 200 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.text import Text

from whyidle.model.buckets import Bucket
from whyidle.model.live.live_moment import Moment
from whyidle.model.live.telemetry import Reading, split_key
from whyidle.reports import _number_format as words
from whyidle.reports._palette import BADGES, LOOKS
from whyidle.reports._relative_paths import shorten_paths
from whyidle.reports._text_bar import LETTERS, SEEN, allocate_cells
from whyidle.reports._text_page import Colours, Page

LINES: Final = 7
"""a rule with the verdict, bar, legend, steps, gauges, costliest line, change"""
_RISING: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = "_.-=+*#@"


def draw_panel(moment: Moment, *, width: int, colours: Colours | None) -> list[str]:
    """Render ``LINES`` rows of at most ``width`` columns, with escape codes for colours."""
    page = Page(width, colours)
    rows = [
        _draw_head(page, moment),
        *_draw_shares(page, moment),
        _draw_steps(page, moment),
        _draw_gauges(page, moment),
        _draw_costliest_place(page, moment),
        page.styled_text(moment.changed and f"changed {moment.changed}", "dim"),
    ]
    for row in rows:
        row.rstrip()
        row.truncate(width, overflow="crop" if page.plain else "ellipsis")
        page.write_row(row)
    return page.page_text().split("\n")[:LINES]


def _draw_head(page: Page, moment: Moment) -> Text:
    rule = page.styled_text("--" if page.plain else "──", "dim")
    if moment.diagnosis is None:
        state = page.styled_text("watching", "bold")
        return Text.assemble(rule, page.styled_text(" whyidle ", "bold"), state)
    verdict = moment.diagnosis.verdict
    badge = page.styled_text(f" {verdict.state.upper()} ", BADGES[verdict.state])
    return Text.assemble(rule, badge, page.styled_text(f" {verdict.headline}", "bold"))


def _draw_shares(page: Page, moment: Moment) -> tuple[Text, Text]:
    if moment.diagnosis is None:
        return Text(), Text()
    attribution = moment.diagnosis.attribution
    shares: Mapping[Bucket, float] = {
        bucket: share for bucket in LOOKS if (share := getattr(attribution, bucket)) >= SEEN
    }
    bar, legend = Text(), Text()
    for bucket, cells in allocate_cells(shares, page.width).items():
        bar.append_text(
            page.styled_text((LETTERS[bucket] if page.plain else "█") * cells, LOOKS[bucket].colour)
        )
    for bucket in sorted(shares, key=lambda bucket: -shares[bucket]):
        entry = Text.assemble(
            page.styled_text(LETTERS[bucket] if page.plain else "█", LOOKS[bucket].colour),
            page.styled_text(
                f" {LOOKS[bucket].title.lower()} {words.format_percent(shares[bucket])}  "
            ),
        )
        if legend.cell_len + entry.cell_len - 2 <= page.width:
            legend.append_text(entry)
    return bar, legend


def _draw_steps(page: Page, moment: Moment) -> Text:
    if moment.step_s is None:
        return page.styled_text("no step yet", "dim")
    rate, unit = (1 / moment.step_s if moment.step_s > 0 else 0.0), "steps/s"
    if moment.diagnosis and moment.diagnosis.steps.samples_per_s:
        rate, unit = moment.diagnosis.steps.samples_per_s, "samples/s"
    speed = f"{words.format_digits(rate)} {unit}"
    row = Text.assemble(
        page.styled_text("step ", "dim"),
        page.styled_text(words.format_seconds(moment.step_s), "bold"),
        page.styled_text(f"  {speed}  {moment.steps:,} steps  "),
    )
    room = page.width - row.cell_len - 1
    return row.append_text(
        page.styled_text(draw_sparkline(moment.trend_s, room, plain=page.plain), "cyan")
    )


def draw_sparkline(values: Sequence[float], room: int, *, plain: bool = False) -> str:
    """Draw the last values, scaled to the highest, one cell each."""
    shown = list(values)[-max(room, 0) :] if room > 0 else []
    marks, top = (_PLAIN if plain else _RISING), max(shown, default=0.0)
    if top <= 0:
        return ""
    return "".join(marks[min(len(marks) - 1, int(value / top * len(marks)))] for value in shown)


def _draw_gauges(page: Page, moment: Moment) -> Text:
    row = Text()
    for entry in [*_gpu_gauges(moment.reading), *_host_gauges(moment)]:
        if row.cell_len + len(entry) > page.width:
            break
        row.append_text(page.styled_text(entry + "  "))
    return row


def _host_gauges(moment: Moment) -> list[str]:
    read, gauges = moment.reading, []
    cores = read.get("cores_effective") or read.get("cores_allowed")
    if moment.cores is not None:
        limit = f" of {cores:g}" if cores else ""
        gauges.append(f"cpu {moment.cores:.1f}{limit} cores")
    memory, total = read.get("job_memory_resident_bytes"), read.get("machine_memory_bytes")
    if memory is not None:
        limit = f" of {words.format_bytes(total)}" if total else ""
        gauges.append(f"mem {words.format_bytes(memory)}{limit}")
    for name, signal in (("waiting for cores", "cpu"), ("storage", "io"), ("memory", "memory")):
        share = read.get(f"pressure_{signal}_some_ratio")
        if share is not None and share >= 0.01:
            gauges.append(f"{name} {words.format_percent(share)}")
    return gauges


def _gpu_gauges(read: Reading) -> list[str]:
    keys = map(split_key, read)
    subjects = sorted({subject for signal, subject in keys if signal == "busy_ratio"})
    return [_gpu_gauge(read, subject) for subject in subjects]


def _gpu_gauge(read: Reading, subject: str) -> str:
    parts = [subject]
    for name, signal in (("busy", "busy_ratio"), ("sm", "sm_active_ratio")):
        share = read.get(f"{signal}@{subject}")
        if share is not None:
            parts.append(f"{name} {words.format_percent(share)}")
    used = read.get(f"memory_used_bytes@{subject}")
    if used is not None:
        parts.append(words.format_bytes(used))
    for signal, unit in (("power_w", "W"), ("temperature_c", "°C")):
        value = read.get(f"{signal}@{subject}")
        if value is not None:
            parts.append(f"{value:.0f} {unit}")
    return " ".join(parts)


def _draw_costliest_place(page: Page, moment: Moment) -> Text:
    findings = shorten_paths(moment.diagnosis).findings if moment.diagnosis else []
    if not findings:
        return Text()
    finding = next((finding for finding in findings if finding.where), findings[0])
    share = f"{words.format_percent(finding.lost.high)} "
    text = finding.title
    if finding.where:
        place, room = words.format_place(finding.where[0]), page.width - len(share) - 7
        text = place if len(place) <= room else "..." + place[-(room - 3) :]
    return Text.assemble(
        page.styled_text("costs  ", "dim"), page.styled_text(share, "bold"), page.styled_text(text)
    )
