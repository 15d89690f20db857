"""Lines at which a run was looked at during its burst, which has a clock of its own."""

from dataclasses import replace

import pytest

from watched_run import add_facts
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.causes.device._unfused_attention_cpu import lines_during
from whyidle.testing.builder import Builder, ms
from whyidle.testing.recorded_job import RecordedJob

ATTENTION, REST = "/job/model.py(7): attend", "/job/model.py(9): rest"
MAIN = "/job/train.py(3): main"
BEGIN, STEPS = 10, 3
"""the burst's first step, and how many it has"""


def run():
    """Attention and the rest, 20 ms each, and the optimizer. To start the recording takes long."""
    job = RecordedJob()
    bounds = []
    for number in range(30):
        bounds.append(job.now)
        job.work(MAIN, ms(25) if number == BEGIN else 0)
        job.work(f"/lib/python3/torch/nn.py(1): f;{ATTENTION};{MAIN}", ms(20))
        job.work(f"{REST};{MAIN}", ms(20))
        job.step(MAIN, ms(2))
    return job.timeline(), (bounds[BEGIN] + 1, bounds[BEGIN + STEPS] + 1)


def recorded(steps=STEPS, late=0, open_for=0):
    """What the burst holds of it; one step comes ``late``, and the last one ends only when the
    recording is taken down."""
    job = Builder(start_ns=77_000_000_000)
    for number in range(steps):
        with job.step():
            job.op("aten::_softmax", host=ms(20))
            job.op("aten::relu", host=ms(20) + (late if number == 1 else 0))
            with job.span("Optimizer.step#SGD.step"):
                job.quiet(ms(2) + (open_for if number == steps - 1 else 0))
    return job.timeline()


def burst_of(live, window, burst):
    told = {"before_s": 0.042, "begin": window[0], "end": window[1]}
    burst = add_facts(replace(burst, process=live.process), {"burst": told})
    return Facts(replace(live, bursts=(burst,))).burst


def during(burst, name="aten::_softmax"):
    host = burst.timeline.host
    rows = [row for row, i in enumerate(host.name) if burst.timeline.names[i] == name]
    return [place.line for place in lines_during(burst, union_of(host.start[rows], host.end[rows]))]


def test_lines_are_those_that_ran_at_that_moment():
    burst = burst_of(*run(), recorded())
    assert during(burst) == [7]
    assert during(burst, "aten::relu") == [9]


def test_the_last_step_is_open_until_the_recording_is_taken_down():
    assert during(burst_of(*run(), recorded(open_for=ms(40)))) == [7]


@pytest.mark.parametrize(
    "burst", [recorded(steps=2), recorded(late=ms(5))], ids=["steps are missing", "other steps"]
)
def test_clocks_that_cannot_be_compared_tell_nothing(burst):
    assert during(burst_of(*run(), burst)) == []


def test_a_recording_that_is_no_burst_tells_nothing():
    assert during(Facts(recorded())) == []


def test_a_run_that_nobody_looked_at_tells_nothing():
    live, window = run()
    assert during(burst_of(replace(live, looks=None), window, recorded())) == []
