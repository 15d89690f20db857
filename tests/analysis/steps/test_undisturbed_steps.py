"""Other programs lengthen the part of a step that several threads compute, not its loading."""

from dataclasses import replace

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.undisturbed_steps import undisturbed_share
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/main.py(9): <module>"


def job(others):
    """Loading takes 60 ms of steps of 100; each third step takes 300. Other programs use so many of
    two cores, the job one."""
    guest = RecordedJob()
    for number in range(60):
        guest.batch(ms(60))
        guest.backward(LOOP, ms(235 if number % 3 == 0 else 35))
        guest.step(LOOP, ms(5))
    timeline = guest.timeline()
    ends = np.array([timeline.base_ns, timeline.base_ns + 12_000_000_000])
    used = {"machine_cpu_user_s": 1.0 + others, "machine_cpu_idle_s": 1.0 - others}
    used |= {"job_cpu_user_s": 1.0, "job_cpu_system_s": 0.0}
    series = {name: Series(ends, np.array([0.0, 12.0 * rate])) for name, rate in used.items()}
    return Facts(replace(timeline, telemetry=Telemetry(series, {})))


def share(others):
    facts = job(others)
    return undisturbed_share(facts, facts.time_of("loader"))


def test_the_median_step_counts_where_other_programs_fill_the_machine():
    assert share(0.95) == pytest.approx(0.6, abs=0.02)


def test_otherwise_long_steps_are_the_job_s_own():
    assert share(0.1) == pytest.approx(0.36, abs=0.02)
