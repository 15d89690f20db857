"""Recordings of every operator in jobs of JAX, and what spoils them."""

import json

import pytest
from jax_jobs import BREAK, TRAIN

from whyidle.diagnosis.burst_evidence import read_bursts
from whyidle.model.roles import Role

pytestmark = pytest.mark.real_processes("a burst begins when step times are stable")

SILENT = """
import sys, time
if jax.__version_info__ < (0, 8, 2):
    print("loud")
    sys.exit()
"""
LOOP = """
for i in range(500):
    w, state, loss = train_step(w, state, x)
    float(loss)
    time.sleep(0.002)
print(float(loss))
"""
OWN = """
import tempfile
for i in range(300):
    w, state, loss = train_step(w, state, x)
    float(loss)
    time.sleep(0.002)
    if i == 50:
        with jax.profiler.trace(tempfile.mkdtemp()):
            pass
"""
FAULTS = ("start", "mark", "stop", "save", "estimate_events", "busy")
OWNER = "core.xplane_profiler:XPlaneProfiler."


def told_of(job):
    (path,) = job.folder.glob("*.bursts.json")
    return json.loads(path.read_text())


def run_bursts(run_job, script):
    job = run_job(TRAIN + SILENT + script, WHYIDLE_PROFILE="look")
    if job.out == "loud\n":
        pytest.skip("this JAX cannot be profiled silently")
    return job


def test_three_steps_are_recorded_and_read(run_job):
    job = run_bursts(run_job, LOOP)
    assert job.faults == ""
    assert [burst["state"] for burst in told_of(job)["bursts"]][:1] == ["recorded"]
    burst = read_bursts(job.folder, job.timeline)[0]
    assert len(burst.rows_of(Role.PROFILER_STEP)) == 3
    assert any("dot" in name for name in burst.names)
    assert not list(job.folder.glob("*~"))


def test_no_burst_where_the_job_profiles_itself(run_job):
    told = told_of(run_bursts(run_job, OWN))
    assert "its own profiler" in told["off"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_profiler_never_reaches_the_job(run_job, fault):
    short = LOOP.replace("500", "350")
    alone = run_job(TRAIN + "import time" + short, watched=False)
    broken = BREAK.format(package="jax", fault=OWNER + fault)
    job = run_bursts(run_job, broken + short)
    assert job.out == alone.out
    assert "injected" in job.faults
