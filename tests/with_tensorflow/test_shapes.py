"""Every shape of training is seen step by step, with the same losses as unwatched."""

import gc

import pytest
import shapes
import tensorflow as tf
from shapes import alone

from whyidle.probe import wire
from whyidle.probe.core import host_reads, span_hooks
from whyidle.probe.core.events import Events
from whyidle.probe.frameworks import keras_datasets
from whyidle.probe.frameworks import keras_hooks as hooks_of_keras
from whyidle.probe.frameworks.tensorflow import (
    adapter,
    input_waits,
    keras_hooks,
    pipelines,
    step_hooks,
    training_function,
)

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
    "a retrace": (step_hooks.RetraceRecorder, "note_trace"),
    "the description of a pipeline": (pipelines.Pipelines, "note_iterator"),
    "the line of a dataset": (pipelines, "note_line"),
    "the model of a pipeline": (pipelines.Pipelines, "read_model"),
}
"""what is made to fail -> where; a fault is injected to prove that it is contained"""
RARER = {
    "the batches of a call": (input_waits.InputWaits, "reading_of", shapes.fit),
    "the iterators of a fit": (input_waits.InputWaits, "release_iterators", shapes.fit),
    "the callbacks of a fit": (keras_hooks, "find_batch_callbacks", shapes.fit),
    "a callback that takes long": (Events, "add_span", shapes.fit),
    "an evaluation": (span_hooks, "mark_place", shapes.fit_and_validate),
    "a dataset of Keras": (keras_datasets.PyDatasets, "note_dataset", shapes.fit_dataset_of_keras),
    "a backward pass": (Events, "backward_ended", shapes.eager_loop),
    "an optimizer's step": (Events, "other_stepped", shapes.eager_loop_with_optimizer),
    "a batch of a loop": (Events, "batch_taken", shapes.custom_loop),
}
"""the same of what not every shape has"""
SHAPES = (shapes.fit, shapes.custom_loop)
PLACES = {
    **{
        f"{what}, {shape.__name__}": (*place, shape)
        for what, place in FAULTY.items()
        for shape in SHAPES
    },
    **RARER,
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_fault_in_a_hook_does_not_reach_the_job(place, watched, faults, monkeypatch):
    owner, name, shape = place
    monkeypatch.setattr(owner, name, fail)
    monkeypatch.setattr(hooks_of_keras, "LEAST_NS", -1)  # every callback is recorded
    seen = alone(shape)
    watched.events.notify("on_chore")
    reached = faults()
    watched.uninstall()
    monkeypatch.undo()
    assert alone(shape) == seen
    assert all("injected" in line for line in reached)
    # a loop of its own asks for batches itself, and Keras 2 has no PyDataset
    assert reached or name in ("read_model", "note_dataset")


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


def test_calls_of_fit_are_counted(watched):
    before = watched.events.live_facts["fits"]()
    alone(shapes.fit)
    assert watched.events.live_facts["fits"]() == before + 1


def living_iterators():
    gc.collect()
    return [one for one in gc.get_objects() if type(one).__name__ == "OwnedIterator"]


@pytest.mark.skipif(not hasattr(shapes.keras.utils, "PyDataset"), reason="Keras 2")
def test_waits_for_a_dataset_with_workers_are_recorded(watched, faults):
    class Rows(shapes.keras.utils.PyDataset):
        def __len__(self):
            return shapes.STEPS

        def __getitem__(self, number):
            return tuple(rows[: shapes.BATCH] for rows in shapes.pairs())

    alone(lambda: shapes.fit(Rows(workers=2)))
    assert faults() == []
    assert count_spans(watched, wire.BATCH_FROM_ITERATOR) == shapes.STEPS * shapes.EPOCHS
    dataset = watched.events.live_facts["py_dataset"]()
    assert (dataset["workers"], dataset["batches"]) == (2, shapes.STEPS)


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_value_that_comes_from_a_device_of_its_own_is_a_read(elsewhere, request, monkeypatch):
    monkeypatch.setattr(adapter, "is_elsewhere", lambda tensor: elsewhere)
    monkeypatch.setattr(host_reads, "WAITED_NS", 0)
    watched = request.getfixturevalue("watched")
    alone(shapes.custom_loop)
    before = count_spans(watched, wire.SCALAR_READ)
    tf.ones((1000, 1000)).numpy()
    assert count_spans(watched, wire.SCALAR_READ) - before == elsewhere


def test_a_fault_in_a_read_does_not_reach_the_job(request, monkeypatch):
    monkeypatch.setattr(adapter, "is_elsewhere", lambda tensor: 1 / 0)
    monkeypatch.setattr(host_reads, "WAITED_NS", 0)
    request.getfixturevalue("watched")
    faults = request.getfixturevalue("faults")
    alone(shapes.custom_loop)
    assert "ZeroDivisionError" in str(faults())


def test_tensors_of_the_cpu_are_not_elsewhere():
    assert not adapter.is_elsewhere(tf.ones(1))
