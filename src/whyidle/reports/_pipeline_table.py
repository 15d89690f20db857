"""The table of a pipeline of tf.data, the same in every report."""

from __future__ import annotations

from typing import Final

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.pipeline_tables import PipelineRow, PipelineStage
from whyidle.reports._line_table import LEAST_SHARE, MOST_ROWS
from whyidle.reports._number_format import NONE, format_percent, format_seconds
from whyidle.reports._sections import Column, Line, Paragraph, Section, Span, Table

TITLE: Final = "The pipeline that makes batches"
HEADS: Final = ("a batch", "share", "at a time", "ready", "stage", "line")


def main_pipeline(diagnosis: Diagnosis) -> PipelineRow | None:
    """Return the pipeline that gave most batches; None if none was measured."""
    return max(diagnosis.detail.pipelines, key=lambda one: one.batches, default=None)


def stage_rows(pipeline: PipelineRow) -> list[list[Line]]:
    """Return the stages from the last to the first, without those that do nothing of note."""
    shown = [
        stage
        for stage in pipeline.stages
        if stage.name != "Root" and (stage.call or stage.buffer or stage.share >= LEAST_SHARE)
    ][:MOST_ROWS]
    most = max((stage.share for stage in shown), default=0.0)
    return [_format_stage(stage, slowest=stage.share == most > 0) for stage in shown]


def _format_stage(stage: PipelineStage, *, slowest: bool) -> list[Line]:
    name = stage.call + (", batch" if "Batch" in stage.name else "") if stage.call else stage.name
    chosen = "" if stage.at_a_time is None or not stage.tunable else ", tuned"
    return [
        format_seconds(stage.batch_s),
        format_percent(stage.share),
        NONE if stage.at_a_time is None else f"{stage.at_a_time}{chosen}",
        NONE if stage.buffer is None else f"{stage.buffered} of {stage.buffer}",
        Span(name, "caution" if slowest else ""),
        Span(f"{stage.file.rpartition('/')[2]}:{stage.line}" if stage.file else "", "code"),
    ]


def pipeline_section(diagnosis: Diagnosis) -> Section | None:
    """The stages of the pipeline that gave most batches; None if tf.data measured none."""
    pipeline = main_pipeline(diagnosis)
    if pipeline is None:
        return None
    about = (
        f"Stages of tf.data for {pipeline.consumer}, the last one first, as tf.data measured them "
        f"over {pipeline.batches:,} batches. Work on a batch is summed over all threads; tuned: "
        "tf.data decides; where the last buffer is empty, steps wait."
    )
    columns = [
        Column(head, number=n < 2, rank=3 if n in (2, 3) else 0) for n, head in enumerate(HEADS)
    ]
    return Section(
        TITLE, [Paragraph(about, tone="dim"), Table(columns, stage_rows(pipeline))], "pipeline"
    )
