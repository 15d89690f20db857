"""Tables of pipelines of tf.data in a diagnosis: their stages as tf.data runs and measures them."""

from __future__ import annotations

import msgspec


class PipelineStage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage of a pipeline, as tf.data runs and measures it.

    ``call`` is the job's call that it comes from, made at ``file`` and ``line``; ``batch_s`` its
    own work on a batch, on however many threads, ``share`` the part of the work of all stages.
    ``at_a_time`` elements are handled at a time, a number that tf.data chooses if ``tunable``;
    ``buffered`` of at most ``buffer`` elements were ready when it was looked at.
    """

    name: str
    call: str
    file: str | None
    line: int | None
    elements: int
    batch_s: float
    share: float
    at_a_time: int | None
    tunable: bool | None
    buffered: int | None
    buffer: int | None


class PipelineRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pipeline of tf.data: what takes its batches, how many it gave, and its stages, the last one
    first."""

    consumer: str
    batches: int
    stages: list[PipelineStage]
