"""The table of the pipeline of tf.data in every report."""

import msgspec
import pipeline_job
import pytest

from whyidle.engine.diagnosis.diagnose import diagnose_job
from whyidle.exporters import html, terminal
from whyidle.model.diagnosis import Diagnosis


@pytest.fixture(scope="module")
def diagnosis():
    nodes = [
        pipeline_job.node("Root", 30),
        pipeline_job.node("Prefetch", 30, 0.1, buffer=4, buffered=0),
        pipeline_job.node("MapAndBatch", 30, 40, 1),
        pipeline_job.node("TensorSlice", 960, 0.1),
    ]
    return diagnose_job([pipeline_job.train(nodes=nodes)])


def test_the_document_holds_the_stages(diagnosis):
    stored = msgspec.json.decode(msgspec.json.encode(diagnosis), type=Diagnosis)
    (pipeline,) = stored.detail.pipelines
    slow = pipeline.stages[2]
    assert (pipeline.consumer, pipeline.batches) == ("Model.fit", 30)
    assert (slow.call, slow.line, slow.at_a_time) == ("map(decode)", 19, 1)
    assert slow.batch_s == pytest.approx(0.04)
    assert [(one.buffered, one.buffer) for one in pipeline.stages][1] == (0, 4)


@pytest.mark.parametrize("render", [terminal.render, html.render])
def test_every_report_shows_them(diagnosis, render):
    text = render(diagnosis)
    assert "he pipeline that makes batches" in text
    assert "map(decode), batch" in text
    assert "0 of 4" in text
    assert "train.py:19" in text


def test_a_terminal_shows_them_only_where_steps_wait():
    found = diagnose_job([pipeline_job.train(wait_ms=0)])
    assert "pipeline that makes" not in terminal.render(found)
    assert "pipeline that makes" in terminal.render(found, full=True)
    assert all(len(line) <= 80 for line in terminal.render(found, full=True).splitlines())
