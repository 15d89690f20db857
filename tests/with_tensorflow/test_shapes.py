"""Every shape of training is seen step by step, with the same losses as unwatched."""

import gc

import pytest
import shapes
import tensorflow as tf
from shapes import alone

from whyidle.probe import wire
from whyidle.probe.frameworks.tensorflow import pipelines, retraces, step_hooks, training_function

UNTRACED = (shapes.eager_loop,)
"""shapes whose steps are backward passes"""


def count_spans(session, role):
    """How many spans have a role, written or not."""
    recorder = session.events.recorder
    numbers = {n for name, n in recorder.names.items() if wire.split_name(name)[0] == role}
    short = [-1 - tag >> 3 for tag in list(recorder.short)[::3]]
    long = [span[3] for span in recorder.spans]
    return sum(number in numbers for number in [*short, *long])


@pytest.fixture(autouse=True)
def no_writing(monkeypatch):
    """Spans stay in memory, where a test counts them."""
    monkeypatch.setattr("whyidle.probe.core.recorder.Recorder.flush_records", lambda self: None)


@pytest.mark.parametrize(
    ("shape", "steps"), shapes.SHAPES.items(), ids=lambda it: getattr(it, "__name__", "")
)
def test_steps_are_counted_and_losses_are_as_ever(shape, steps, watched, faults):
    seen = alone(shape)
    counted = count_spans(watched, wire.BACKWARD if shape in UNTRACED else wire.OPTIMIZER)
    assert (counted, faults()) == (steps, [])
    watched.uninstall()
    assert alone(shape) == seen


def fail(*args, **kwargs):
    raise RuntimeError("injected")


FAULTY = {
    "the call of a function": (step_hooks.TracedCalls, "note_call"),
    "a gradient in a trace": (training_function.TrainingFunctions, "note_gradient"),
    "a retrace": (retraces.RetraceRecorder, "note_trace"),
    "the description of a pipeline": (pipelines.Pipelines, "note_iterator"),
    "the line of a dataset": (pipelines, "note_line"),
    "the model of a pipeline": (pipelines.Pipelines, "read_model"),
}
"""what is made to fail -> where; a fault is injected to prove that it is contained"""


@pytest.mark.parametrize("place", FAULTY.values(), ids=FAULTY)
@pytest.mark.parametrize("shape", [shapes.fit, shapes.custom_loop], ids=lambda it: it.__name__)
def test_a_fault_in_a_hook_does_not_reach_the_job(place, shape, watched, faults, monkeypatch):
    monkeypatch.setattr(*place, fail)
    seen = alone(shape)
    watched.events.notify("on_chore")
    reached = faults()
    watched.uninstall()
    monkeypatch.undo()
    assert alone(shape) == seen
    assert all("injected" in line for line in reached)
    assert reached or place[1] == "read_model"  # a loop of its own asks for batches itself


def test_checkpoints_of_the_job_s_own_loop_are_recorded(watched, tmp_path):
    saved = tf.train.Checkpoint(number=tf.Variable(1.0))
    tf.train.CheckpointManager(saved, str(tmp_path), max_to_keep=1).save()
    assert count_spans(watched, wire.CHECKPOINT) == 1
    saved.save(str(tmp_path / "own"))
    saved.write(str(tmp_path / "other"))
    assert count_spans(watched, wire.CHECKPOINT) == 3


def test_no_iterator_outlives_the_fit_that_made_it(watched):
    known = {id(one) for one in living_iterators()}  # of other tests
    alone(shapes.fit)
    assert {id(one) for one in living_iterators()} <= known


def living_iterators():
    gc.collect()
    return [one for one in gc.get_objects() if type(one).__name__ == "OwnedIterator"]
