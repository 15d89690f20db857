"""Watched jobs of TensorFlow whose steps take their batches from a pipeline of tf.data."""

from whyidle.model.timeline import HostKind
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/usr/lib/python3.11/site-packages/keras/src/backend/tensorflow/trainer.py(9): fit;"
LOOP += "/job/train.py(30): <module>"
STEPS, BATCH = 30, 32


def stage(name, line, operators=(), calls=None):
    return {
        "name": name,
        "line": f"/job/train.py({line}): <module>",
        "function": "decode" if operators else None,
        "code": "/job/train.py(8): decode" if operators else None,
        "calls": calls,
        "size": None,
        "operators": list(operators),
    }


def node(name, elements, batch_ms=0.0, parallelism=None, **more):
    told = {"name": name, "elements": elements, "ns": int(ms(batch_ms) * STEPS), "buffered": 0}
    return told | {"parallelism": parallelism, "tunable": parallelism and parallelism > 1} | more


def train(
    wait_ms=40,
    *,
    work_ms=10,
    batch_ms=None,
    operators=("PyFunc",),
    calls=1,
    cores=0.3,
    **pipeline,
):
    """Steps that wait for their batch and work. The map works ``batch_ms`` on a batch
    (as long as the wait and the work if not given), with as many ``calls`` at a time; meanwhile
    the process keeps this many ``cores`` busy."""
    batch_ms = wait_ms + work_ms if batch_ms is None else batch_ms
    job = RecordedJob(framework="tensorflow", cores=2.0)
    for _ in range(STEPS):
        with job.call("optimizer\tModel.fit"):
            with job.call("batch_from_iterator\ttf.data: next batch"):
                job.wait(LOOP, ms(wait_ms))
            with job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP):
                job.work(LOOP, ms(work_ms))
    elapsed = STEPS * ms(wait_ms + work_ms)
    job.facts["cpu"] = [[0, 0], [elapsed, int(cores * elapsed)]]
    described = {
        "consumer": "Model.fit",
        "stages": [stage("Batch", 20), stage("Map", 19, operators), stage("TensorSlice", 18)],
        "nodes": [
            node("Root", STEPS),
            node("MapAndBatch", STEPS, batch_ms, calls),
            node("TensorSlice", STEPS * BATCH, 0.1),
        ],
        "options": {},
        "batches": STEPS,
        "iterators": 1,
    }
    job.documents["tfdata.json"] = {"pipelines": [described | pipeline], "model": True}
    return job.timeline()
