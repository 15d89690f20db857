"""Keywords of TensorFlow and Keras in a script."""

from patching import added, rewrite

PIPELINE = """import tensorflow as tf
table = list(map(str, [1, 2]))
ds = tf.data.Dataset.range(9).map(decode).batch(4)
other = tf.data.Dataset.range(9).map(decode, num_parallel_calls=4)
"""


def test_the_map_of_the_finding_gets_parallel_calls():
    assert added(PIPELINE, "tfdata.map_calls", 16, lines=(3,)) == [
        "-ds = tf.data.Dataset.range(9).map(decode).batch(4)",
        "+ds = tf.data.Dataset.range(9).map(decode, num_parallel_calls=16).batch(4)",
    ]


def test_maps_that_trials_left_alone_are_left():
    found = rewrite(PIPELINE, "tfdata.map_calls", 16, made={3: "", 4: "it has calls already"})
    assert "map(decode, num_parallel_calls=16).batch" in found.text
    assert "num_parallel_calls=4" in found.text
    assert found.why


MODELS = """import re, keras
pattern = re.compile("x", re.I)
model.compile(optimizer="adam", loss="mse")
other.compile("sgd", "mse")
"""


def test_the_model_that_trials_changed_takes_several_steps_in_a_call():
    assert added(MODELS, "keras.steps_per_execution", 20, 1, made={4: ""}) == [
        '-other.compile("sgd", "mse")',
        '+other.compile("sgd", "mse", steps_per_execution=20)',
    ]


def test_without_a_trial_only_what_is_certainly_a_model_does():
    assert added(MODELS, "keras.steps_per_execution", 20, 1) == [
        '-model.compile(optimizer="adam", loss="mse")',
        '+model.compile(optimizer="adam", loss="mse", steps_per_execution=20)',
    ]


def test_a_model_is_compiled_by_xla():
    assert added(MODELS, "model.compile", True, False) == [
        '-model.compile(optimizer="adam", loss="mse")',
        '+model.compile(optimizer="adam", loss="mse", jit_compile=True)',
    ]
    said = MODELS.replace('loss="mse"', 'loss="mse", jit_compile="auto"')
    assert added(said, "model.compile", True, False)[1:] == [
        '+model.compile(optimizer="adam", loss="mse", jit_compile=True)'
    ]


DATASET = """import keras
class Scans(keras.utils.PyDataset):
    def __init__(self, files):
        super().__init__()
        self.files = files
data = Scans([])
"""


def test_a_dataset_gets_workers_where_it_calls_its_base():
    assert added(DATASET, "keras.workers", 8, 1) == [
        "-super().__init__()",
        "+super().__init__(workers=8)",
    ]


def test_a_dataset_that_passes_its_arguments_on_gets_them_where_it_is_made():
    text = DATASET.replace("files):", "files, **more):").replace("_init__()", "_init__(**more)")
    assert added(text, "keras.workers", 8, 1) == [
        "-data = Scans([])",
        "+data = Scans([], workers=8)",
    ]
