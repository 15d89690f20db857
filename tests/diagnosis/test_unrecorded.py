"""A CPU job of which nothing was found: only where what it computes was recorded is it said that
there is nothing to find."""

from dataclasses import replace

import pytest

from watched_run import add_facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import Builder, ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(20): main"


def job(**settings):
    guest = RecordedJob()
    for _ in range(60):
        guest.backward(LOOP, ms(9))
        guest.step(LOOP, ms(1))
    told = guest.timeline()
    return add_facts(told, settings)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "the run was too short, or profiling was off"),
        ({"bursts": {"bursts": [], "off": "closed"}}, "the run was too short"),
        ({"bursts": {"bursts": [], "off": "closed", "needs_s": 56.3}}, "takes 56.3 s of training"),
        ({"bursts": {"off": "closed", "put_off": "anomaly mode is on"}}, ": anomaly mode is on"),
        ({"bursts": {"off": "closed", "looks": True}}, "too few steps were watched"),
        ({"bursts": {"bursts": [], "off": "the job uses its own profiler"}}, "its own profiler"),
    ],
)
def test_it_is_said_where_nobody_looked_at_what_it_computes(settings, why):
    told = diagnose_job([job(**settings)]).verdict
    assert told.state == "inconclusive"
    assert "computes 100% of the time; its operators were not recorded" in told.headline
    assert why in told.headline
    helps = "too short" in why or "takes" in why  # else it would not mend that to ask for one
    assert ("--look profile" in told.headline) == helps


def test_and_not_where_somebody_did():
    live = job()
    burst = Builder()
    for _ in range(3):
        with burst.step():
            burst.op("aten::mm", host=ms(10))
    recorded = add_facts(
        replace(burst.timeline(), process=live.process), {"burst": {"window": "steps"}}
    )
    told = diagnose_job([replace(live, bursts=(recorded,))]).verdict
    assert told.state == "saturated"
    assert "recorded" not in told.headline
