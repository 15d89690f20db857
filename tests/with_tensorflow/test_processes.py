"""Whole jobs under the probe: the report of a callback, a pipeline of a loop, and the end."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import whyidle
from whyidle.model.roles import Role
from whyidle.readers import xplane
from whyidle.record.recording_diagnosis import diagnose_recording

VERSION = tuple(int(part) for part in version("tensorflow").split(".")[:2])
WITH_MODEL = (2, 18)
"""the first version that tells what tf.data measures of its stages"""
BOOT = Path(whyidle.__file__).parent / "probe" / "boot"


def run_job(folder, text, edits=None, fault=""):
    """Run a job with the probe in it, with no fault but ``fault``; return what it printed."""
    job = folder / "job.py"
    job.write_text(text)
    env = {**os.environ, "PYTHONPATH": str(BOOT), "WHYIDLE_RUN": str(folder)}
    if edits:
        plan = folder / "plan.json"
        plan.write_text(json.dumps({"edits": edits, "was": {}}))
        env["WHYIDLE_PLAN"] = str(plan)
    done = subprocess.run(
        [sys.executable, job], env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    (folder / "stderr").write_text(done.stderr)
    told = "".join(path.read_text() for path in folder.glob("*.faults"))
    assert fault in told if fault else not told, told
    return done.stdout


LOOP = """
import time
import tensorflow as tf

def load(i):
    time.sleep(0.003)
    return i

data = tf.data.Dataset.range(6000).map(lambda i: tf.numpy_function(load, [i], tf.int64)).batch(8)
weight = tf.Variable(1.0)

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = (weight * tf.reduce_mean(tf.cast(x, tf.float32))) ** 2
    weight.assign_sub(1e-9 * tape.gradient(loss, weight))
    return loss

for number, x in enumerate(data):
    loss = train_step(x)
    if number == STEPS:
        print(float(loss))
        break
"""
"""it ends while its iterator is alive"""


def test_in_a_trial_the_batches_of_steps_without_a_loss_are_hashed(tmp_path, monkeypatch):
    monkeypatch.setenv("WHYIDLE_TRIAL", json.dumps({"steps": 12, "seconds": 60.0}))
    run_job(
        tmp_path,
        LOOP.replace("    return loss\n", "")
        .replace("print(float(loss))", "pass")
        .replace("STEPS", "29"),
    )
    (told,) = (json.loads(path.read_text()) for path in tmp_path.glob("*.trial.json"))
    assert told["losses"] == []
    assert len(set(told["batches"])) == len(told["marks"]) == 30


@pytest.mark.real_processes("its waits are judged by their times")
def test_a_loop_of_the_job_s_own_is_told_which_stage_is_slow(tmp_path):
    run_job(tmp_path, LOOP.replace("STEPS", "110"))
    found = diagnose_recording(tmp_path)
    assert found.run.framework == "tensorflow"
    assert found.attribution.input > 0.5
    if VERSION < WITH_MODEL:  # the line of the loop is all that is known
        assert (found.findings, "job.py:19" in found.verdict.headline) == ([], True)
        return
    assert found.verdict.bound == "input"
    assert found.findings[0].cause == "serial-map"
    assert found.findings[0].where[0].line == 9


def test_a_job_whose_maps_got_threads_ends_with_a_live_iterator(tmp_path):
    """Without the release at exit it would wait for ever: see the limit of ``run_job``."""
    plain, threads = tmp_path / "plain", tmp_path / "threads"
    plain.mkdir()
    threads.mkdir()
    edits = {"tfdata.map_calls": 4}
    printed = run_job(threads, LOOP.replace("STEPS", "20"), edits)
    assert printed == run_job(plain, LOOP.replace("STEPS", "20"))
    (told,) = threads.glob("*.knobs.json")
    assert {*json.loads(told.read_text())["applied"]} == {*edits}


CALLBACK = """
import keras
import numpy as np
from whyidle.integrations import KerasCallback

model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
watch = KerasCallback(report="none", store="STORE")
x = np.ones((4000, 4), "float32")
model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=[watch])
print(watch.diagnosis.steps.count, watch.diagnosis.run.framework)
"""


def test_a_callback_watches_a_fit(tmp_path):
    text = CALLBACK.replace("STORE", str(tmp_path / "store"))
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    steps, framework = done.stdout.split()
    assert (int(steps) > 1900, framework) == (True, "tensorflow")


def test_three_steps_are_recorded_with_every_operator(tmp_path, monkeypatch):
    monkeypatch.setenv("WHYIDLE_PROFILE", "look")
    run_job(tmp_path, LOOP.replace("STEPS", "110"))
    (told,) = tmp_path.glob("*.bursts.json")
    bursts = json.loads(told.read_text())["bursts"]
    assert [burst["state"] for burst in bursts][:1] == ["recorded"]
    found = xplane.load(tmp_path / bursts[0]["file"])
    assert len(found.rows_of(Role.PROFILER_STEP)) == 3
    assert len(found.rows_of(Role.LOADER)) >= 3
    assert not list(tmp_path.glob("*~"))


def test_a_burst_adds_no_line_to_what_tensorflow_logs(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    run_job(tmp_path, LOOP.replace("STEPS", "400"))
    log = (tmp_path / "stderr").read_text()
    assert log.strip()  # TensorFlow logs here, if only that it found no GPU
    assert "rofile" not in log
    (told,) = (json.loads(path.read_text()) for path in tmp_path.glob("*.bursts.json"))
    states = [burst["state"] for burst in told["bursts"]]
    assert "recorded" in states or "writes to standard error" in told["off"]


BREAK = """
import sys
import tensorflow

def fail(*args, **kwargs):
    raise ValueError("injected")

# a fault of ours: the job must not see it
sys.modules["_whyidle_probe.frameworks.tensorflow.profiler"].Session.{fault} = fail
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the loop prints unwatched."""
    job = tmp_path_factory.mktemp("alone") / "job.py"
    job.write_text(LOOP.replace("STEPS", "70"))
    return subprocess.check_output([sys.executable, job], text=True, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("fault", ["__init__", "stop"])
def test_a_fault_of_the_profiler_never_reaches_the_job(tmp_path, monkeypatch, printed, fault):
    monkeypatch.setenv("WHYIDLE_PROFILE", "look")
    text = BREAK.format(fault=fault) + LOOP.replace("STEPS", "70")
    assert run_job(tmp_path, text, fault="injected") == printed


ROWS = LOOP.replace("import time\n", "").replace(
    LOOP[LOOP.index("def load") : LOOP.index("weight")],
    """
def rows():
    for number in range(6000):
        yield number

data = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((), tf.int64)).batch(8)
""",
)


def test_the_own_code_of_a_generator_of_rows_is_timed(tmp_path):
    run_job(tmp_path, ROWS.replace("STEPS", "110"))
    (told,) = (json.loads(path.read_text()) for path in tmp_path.glob("*.tfdata.json"))
    given = next(one["given"] for one in told["pipelines"][0]["stages"] if one["given"])
    assert given["elements"] >= 8
    assert given["ns"] > 0
