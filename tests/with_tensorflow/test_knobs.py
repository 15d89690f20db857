"""Knobs in a real TensorFlow: the numbers stay, and what they decline."""

import keras
import pytest
import shapes
import tensorflow as tf
from shapes import BATCH, VERSION, alone

from whyidle.probe import knobs
from whyidle.probe.knobs.keras import WITH_PARTIAL_CALLS

newer = pytest.mark.skipif(VERSION < WITH_PARTIAL_CALLS, reason="it declines in this Keras")


@pytest.fixture
def turn(tmp_path):
    """Apply knobs; they are undone at the end."""
    sessions = []

    def apply(edits):
        session = knobs.KnobSession(str(tmp_path), {"edits": edits})
        sessions.append(session)
        session.apply_knobs()
        return session

    yield apply
    for session in sessions:
        session.undo_changes()
    assert not list(tmp_path.glob("*.faults"))


def fit_quietly(**named):
    net = shapes.model()
    history = net.fit(shapes.dataset(), epochs=2, verbose=0, shuffle=False, **named)
    return [*history.history["loss"], *net.get_weights()[0].ravel()]


@newer
def test_several_steps_in_a_call_give_the_same_numbers(turn):
    plain = alone(fit_quietly)
    session = turn({"keras.steps_per_execution": 4})
    assert alone(fit_quietly) == plain
    assert session.applied == {"keras.steps_per_execution": 1}
    ((line, why),) = session.made["keras.steps_per_execution"].items()
    assert ("shapes.py" in line, why) == (True, "")


@newer
def test_other_calls_of_a_model_take_one_step(turn):
    def train_and_go_on():
        net, (x, y) = shapes.model(), shapes.pairs()
        for _ in range(2):
            net.fit(shapes.dataset(), verbose=0, shuffle=False)
        return [float(net.train_on_batch(x[:BATCH], y[:BATCH])) for _ in range(3)]

    plain = alone(train_and_go_on)
    turn({"keras.steps_per_execution": 4})
    assert alone(train_and_go_on) == plain


@newer
def test_a_model_that_is_compiled_again_is_traced_again(turn):
    def train_twice():
        net = shapes.model()
        net.fit(shapes.dataset(), verbose=0, shuffle=False)
        net.compile(keras.optimizers.SGD(0.5), "mae")
        return net.fit(shapes.dataset(), verbose=0, shuffle=False).history["loss"]

    plain = alone(train_twice)
    turn({"keras.steps_per_execution": 4})
    assert alone(train_twice) == plain


@newer
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"callbacks": [shapes.Losses()]}, "Losses needs every batch"),
        ({"steps_per_epoch": 5}, "steps_per_epoch=5 is not a multiple of 4"),
        (
            {
                "callbacks": [
                    keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
                ]
            },
            "Lambda",
        ),
    ],
)
def test_it_declines_where_a_batch_is_looked_at(turn, settings, why):
    session = turn({"keras.steps_per_execution": 4})
    alone(lambda: fit_quietly(**settings))
    assert why in session.declined["keras.steps_per_execution"]


@newer
@pytest.mark.filterwarnings("ignore:__array__")  # in Keras, of NumPy
def test_callbacks_of_keras_that_wait_for_the_epoch_do_not_matter(turn, tmp_path):
    session = turn({"keras.steps_per_execution": 4})
    saved = keras.callbacks.ModelCheckpoint(str(tmp_path / "a.weights.h5"), save_weights_only=True)
    alone(lambda: fit_quietly(callbacks=[saved, keras.callbacks.EarlyStopping("loss")]))
    assert session.applied


PLACES = {
    "keras.steps_per_execution": "keras.check_joinable",
    "tfdata.map_calls": "tfdata.explain_unsafe",
}


@newer
@pytest.mark.parametrize("knob", PLACES)
def test_a_fault_of_a_knob_does_not_reach_the_job(turn, knob, monkeypatch, tmp_path):
    def fail(*args, **kwargs):  # a fault of ours, injected to prove that it is contained
        raise RuntimeError("injected")

    def train():
        x, y = shapes.pairs()
        data = tf.data.Dataset.range(4).map(lambda i: (x[:BATCH], y[:BATCH]))
        data = data.apply(tf.data.experimental.assert_cardinality(4))
        return shapes.model().fit(data, verbose=0, shuffle=False).history["loss"]

    monkeypatch.setattr(f"whyidle.probe.knobs.{PLACES[knob]}", fail)
    plain = alone(train)
    session = turn({knob: 4})
    assert alone(train) == plain
    assert "injected" in session.declined[knob]
    for told in tmp_path.glob("*.faults"):
        told.unlink()
