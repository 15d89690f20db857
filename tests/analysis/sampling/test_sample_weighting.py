"""For which time samples speak."""

from dataclasses import replace

import numpy as np
import pytest
from sampled import host_calls

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import samples_per_s
from whyidle.analysis.lines.sampled_lines import busiest_lines
from whyidle.analysis.sampling.gil_waits import LONG_WAIT_US
from whyidle.analysis.sampling.sample_weighting import date_samples, weigh_samples
from whyidle.model.loader_tables import BATCH, Loading
from whyidle.model.stack_samples import STACK_SAMPLE
from whyidle.testing.recorded_job import RecordedJob


def looks(*rows):
    """Samples at a moment (ms), got so many ms late, with a stack."""
    made = np.zeros(len(rows), STACK_SAMPLE)
    for row, (time, late, stack) in zip(made, rows, strict=True):
        row["time"], row["waited_us"], row["stack"], row["thread"] = (
            time * 10**6,
            late * 1000,
            stack,
            1,
        )
    return made


def dated(spans, samples, unknown):
    return date_samples(spans, samples, unknown, samples["waited_us"] >= LONG_WAIT_US)


def calls(*rows):
    start, end = np.array(rows, np.int64).T * 10**6
    return host_calls(start, end, thread=1)


UNKNOWN = 99


def test_a_late_look_says_that_python_ran_where_it_was_wanted_but_not_its_line():
    """Wanted between calls, got inside the next: the lock was held, by a line that is not seen."""
    told = dated(calls((20, 30), (50, 60)), looks((45, 8, 7)), UNKNOWN)
    assert told["time"].tolist() == [45 * 10**6]
    assert told["waited_us"].tolist() == [8000]
    assert told["stack"].tolist() == [UNKNOWN]


def test_its_line_is_that_of_the_nearest_look_that_found_python_in_the_same_phase():
    three = calls((20, 30), (50, 60), (80, 90), (110, 120))
    samples = looks((35, 0.1, 2), (37, 5, 3), (45, 8, 7), (75, 9, 7), (92, 5, 4))
    told = dated(three, samples, UNKNOWN)
    assert told["stack"].tolist() == [2, 3, 3, 4, 4]
    assert (told["time"] == samples["time"]).all()


def test_a_look_that_was_hardly_late_is_dated_when_it_was_had():
    moved = dated(calls((20, 30), (50, 60)), looks((49.8, 0.4, 7)), UNKNOWN)
    assert moved["time"].tolist() == [50_200_000]
    assert moved["waited_us"].tolist() == [0]
    assert moved["stack"].tolist() == [7]


def test_a_late_look_between_the_same_calls_still_says_that_python_ran():
    samples = looks((35, 8, 7), (52, 4, 7))
    assert (dated(calls((20, 30), (50, 60)), samples, UNKNOWN) == samples).all()


def test_python_that_is_shorter_than_the_switch_interval_is_seen():
    """No look ever gets the lock within four milliseconds of Python: all are late, in the next
    call."""
    job = RecordedJob()
    for _ in range(40):
        job.batch(1_000_000)
        job.work("/torch/nn/linear.py(134): forward;/job/train.py(12): <module>", 3_000_000)
        job.backward("/torch/autograd/graph.py(979): run;/job/train.py(13): <module>", 5_000_000)
        job.step("/torch/optim/sgd.py(90): step;/job/train.py(14): <module>", 3_000_000)
        job.python("/job/train.py(30): metrics;/job/train.py(15): <module>", 4_000_000)
    facts = Facts(job.timeline())
    assert facts.bucket_share("python") == pytest.approx(4 / 16, abs=0.01)
    assert facts.bucket_share("loader") == pytest.approx(1 / 16, abs=0.01)
    assert not busiest_lines(facts, facts.time_of("python"))  # and no line is made up for it


def test_what_follows_a_batch_of_an_evaluation_is_no_phase_of_training():
    """Of training, hardly anything lies between a batch and the optimizer, whose call holds the
    passes (Lightning); no look ever finds it. Of an evaluation the next batch follows."""
    job = RecordedJob()
    for step in range(40):
        job.batch(10_000_000)
        job.now += 1_000_000
        job.step("/torch/optim/sgd.py(90): step;/job/train.py(14): <module>", 30_000_000)
        if step % 10 == 5:
            for _ in range(3):
                job.batch(10_000_000)
                job.work("/torch/nn/linear.py(1): forward;/job/train.py(5): validation_step", 10**7)
    batches = np.zeros(1, BATCH)
    batches["samples"], batches["worker"] = 16, -1
    facts = Facts(replace(job.timeline(), loading=Loading(batches=batches)))
    assert facts.host.time_in("evaluation").total == 12 * 10**7
    later = facts.steps.seconds[1:]  # before the first one frameworks may check validation
    assert samples_per_s(facts) == pytest.approx(len(later) * 16 / later.sum())


def test_what_is_done_in_every_eighth_step_does_not_get_the_time_of_the_others():
    """A call of 8 ms, then 2 ms of the model (1); in every eighth step 80 ms before it (2)."""
    spans, truth, now = [], {1: 0.0, 2: 0.0}, 0.0
    stretches = []
    for step in range(160):
        spans.append((now, now + 8))
        rare = 80 if step % 8 == 7 else 0
        stretches += [(now + 8, now + 8 + rare, 2), (now + 8 + rare, now + 10 + rare, 1)]
        now += 10 + rare
    for begin, end, stack in stretches:
        truth[stack] += end - begin
    moments = np.arange(0, now, 5.3)
    rows = [(at, 0, one) for at in moments for begin, end, one in stretches if begin <= at < end]
    samples = looks(*rows)
    index, start, stop = weigh_samples(calls(*spans), samples)
    found = {one: (stop - start)[samples["stack"][index] == one].sum() / 1e6 for one in truth}
    assert found[2] == pytest.approx(truth[2], rel=0.1)
    assert found[1] == pytest.approx(truth[1], rel=0.25)
