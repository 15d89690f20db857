"""The table of the pipeline of tf.data in every report."""

from functools import partial

import msgspec
import pipeline_job
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.diagnosis import Diagnosis
from whyidle.reports import html, terminal

everything = partial(terminal.render, full=True)


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


@pytest.mark.parametrize("render", [everything, html.render])
def test_every_report_shows_them(diagnosis, render):
    text = render(diagnosis)
    assert "he pipeline that makes batches" in text
    assert "map(decode), batch" in text
    assert "0 of 4" in text
    assert "train.py:19" in text


def test_they_fit_a_terminal_and_are_not_on_the_first_screen(diagnosis):
    assert "pipeline that makes" not in terminal.render(diagnosis)
    assert all(len(line) <= 80 for line in everything(diagnosis).splitlines())
