"""The stages of the pipeline that makes the batches."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._pipeline_table import (
    HEADS,
    TITLE,
    StageText,
    main_pipeline,
    stage_rows,
)
from whyidle.model.diagnosis import Diagnosis

NUMBERS = 2
"""columns from the left that hold numbers"""


def render_pipeline(diagnosis: Diagnosis) -> Markup | None:
    """Render the pipeline that gave most batches; None if tf.data measured none."""
    pipeline = main_pipeline(diagnosis)
    if pipeline is None:
        return None
    heads = [tag("th", head, class_="n") for head in HEADS[:NUMBERS]]
    return tag(
        "section",
        tag("h2", TITLE[:1].upper() + TITLE[1:]),
        tag(
            "p",
            f"Stages of tf.data for {pipeline.consumer}, the last one first, as tf.data measured "
            f"them over {pipeline.batches:,} batches. Work on a batch is summed over all threads; "
            "tuned means that tf.data decides; an empty last buffer means that steps wait.",
        ),
        render_table([*heads, *HEADS[NUMBERS:]], map(_render_stage, stage_rows(pipeline))),
        id="pipeline",
    )


def _render_stage(row: StageText) -> Markup:
    return tag(
        "tr",
        tag("td", row.work, class_="n"),
        tag("td", row.share, class_="n"),
        tag("td", row.at_a_time),
        tag("td", row.ready),
        tag("td", tag("b", row.stage) if row.slowest else row.stage),
        tag("td", tag("code", row.line) if row.line else None),
    )
