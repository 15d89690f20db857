"""The table of a pipeline of tf.data, the same in every report."""

from __future__ import annotations

from typing import Final, NamedTuple

from whyidle.exporters._number_format import NONE, format_percent, format_seconds
from whyidle.exporters._text_page import Page
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.pipeline_tables import PipelineRow, PipelineStage

TITLE: Final = "the pipeline that makes batches"
HEADS: Final = ("a batch", "share", "at a time", "ready", "stage", "line")
MOST_ROWS: Final = 8
LEAST_SHARE: Final = 0.01
"""stages with less of the work, no buffer and no call of the job are left out"""
WAITED: Final = 0.1
"""least share of the step that waits for batches, for the table to be shown on a terminal"""


class StageText(NamedTuple):
    """One stage, as texts."""

    work: str
    share: str
    at_a_time: str
    ready: str
    stage: str
    line: str
    slowest: bool

    @property
    def texts(self) -> tuple[str, ...]:
        """The cells of the row."""
        return (self.work, self.share, self.at_a_time, self.ready, self.stage, self.line)


def main_pipeline(diagnosis: Diagnosis) -> PipelineRow | None:
    """Return the pipeline that gave most batches; None if none was measured."""
    return max(diagnosis.detail.pipelines, key=lambda one: one.batches, default=None)


def stage_rows(pipeline: PipelineRow) -> list[StageText]:
    """Return the stages from the last to the first, without those that do nothing of note."""
    shown = [
        stage
        for stage in pipeline.stages
        if stage.name != "Root" and (stage.call or stage.buffer or stage.share >= LEAST_SHARE)
    ][:MOST_ROWS]
    most = max((stage.share for stage in shown), default=0.0)
    return [_format_stage(stage, slowest=stage.share == most > 0) for stage in shown]


def _format_stage(stage: PipelineStage, *, slowest: bool) -> StageText:
    name = stage.call + (", batch" if "Batch" in stage.name else "") if stage.call else stage.name
    chosen = "" if stage.at_a_time is None or not stage.tunable else ", tuned"
    return StageText(
        work=format_seconds(stage.batch_s),
        share=format_percent(stage.share),
        at_a_time=NONE if stage.at_a_time is None else f"{stage.at_a_time}{chosen}",
        ready=NONE if stage.buffer is None else f"{stage.buffered} of {stage.buffer}",
        stage=name,
        line=f"{stage.file.rpartition('/')[2]}:{stage.line}" if stage.file else "",
        slowest=slowest,
    )


def draw_pipeline_table(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """Draw the table on a terminal where steps wait for batches, or in a full report."""
    pipeline = main_pipeline(diagnosis)
    if pipeline is None or not (full or diagnosis.attribution.input >= WAITED):
        return
    page.write_blank_line()
    page.write_paragraph(f"{TITLE}, last stage first", style="bold", indent=2)
    rows = stage_rows(pipeline)
    cells = [HEADS, *((*row.texts,) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, parts in enumerate(cells):
        padded = [
            part.ljust(width) if place > 1 else part.rjust(width)
            for place, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        text = f"  {'  '.join(padded)}"[: page.width].rstrip()
        style = "dim" if not number else "yellow" if rows[number - 1].slowest else ""
        page.write_row(page.styled_text(text, style))
